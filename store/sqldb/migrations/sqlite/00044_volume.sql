-- Volumes of projects, which exist without an instance and can be attached to one. The disks that were made with an instance stay in the
-- table volume, as before.
--
-- volume is the name in the pool, and owner the ID in the tag there. token is the token that made it, or its instance. instance, idx
-- and bus are those of the instance that has it, and former the idx before the last rebuild.

-- +goose Up
CREATE TABLE project_volume (
    id       text    NOT NULL PRIMARY KEY,
    project  text    NOT NULL REFERENCES project (name),
    name     text    NOT NULL,
    pool     text    NOT NULL,
    volume   text    NOT NULL,
    owner    text    NOT NULL,
    token    text    NOT NULL DEFAULT '',
    node     text    NOT NULL, -- empty if the pool is shared
    state    text    NOT NULL,
    size     integer NOT NULL,
    image    text,
    instance text,
    idx      integer,
    former   integer,
    bus      text    NOT NULL DEFAULT '',
    keep     integer NOT NULL DEFAULT 1,
    revision integer NOT NULL,
    created  integer NOT NULL,
    UNIQUE (project, name),
    UNIQUE (pool, volume),
    UNIQUE (instance, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_volume_token ON project_volume (token) WHERE token <> '';
CREATE INDEX project_volume_image ON project_volume (image) WHERE image IS NOT NULL;

UPDATE version SET schema = 44, min_program = 44;
