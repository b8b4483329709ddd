-- Volumes of projects, which exist without an instance and can be attached to one. The disks that were made with an instance stay in the
-- table volume, as before.
--
-- volume is the name in the pool, and owner the ID in the tag there. instance, idx and bus are those of the instance that has it.

-- +goose Up
CREATE TABLE project_volume (
    id       text    NOT NULL PRIMARY KEY,
    project  text    NOT NULL REFERENCES project (name),
    name     text    NOT NULL,
    pool     text    NOT NULL,
    volume   text    NOT NULL,
    owner    text    NOT NULL,
    node     text    NOT NULL, -- empty if the pool is shared
    state    text    NOT NULL,
    size     integer NOT NULL,
    image    text,
    instance text,
    idx      integer,
    bus      text    NOT NULL DEFAULT '',
    keep     integer NOT NULL DEFAULT 1,
    revision integer NOT NULL,
    created  integer NOT NULL,
    UNIQUE (project, name),
    UNIQUE (pool, volume),
    UNIQUE (instance, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_volume_image ON project_volume (image) WHERE image IS NOT NULL;

UPDATE version SET schema = 44, min_program = 44;
