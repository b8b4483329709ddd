-- Volumes of projects, which exist without an instance and can be attached to one. The disks that were made with an instance stay in the
-- table volume, as before.
--
-- volume is the name in the pool, and owner the ID in the tag there. instance, idx and bus are those of the instance that has it.

-- +goose Up
CREATE TABLE project_volume (
    id       text COLLATE "C" NOT NULL PRIMARY KEY,
    project  text COLLATE "C" NOT NULL REFERENCES project (name),
    name     text COLLATE "C" NOT NULL,
    pool     text COLLATE "C" NOT NULL,
    volume   text COLLATE "C" NOT NULL,
    owner    text COLLATE "C" NOT NULL,
    node     text COLLATE "C" NOT NULL, -- empty if the pool is shared
    state    text COLLATE "C" NOT NULL,
    size     bigint NOT NULL,
    image    text COLLATE "C",
    instance text COLLATE "C",
    idx      bigint,
    bus      text COLLATE "C" NOT NULL DEFAULT '',
    keep     bigint NOT NULL DEFAULT 1,
    revision bigint NOT NULL,
    created  bigint NOT NULL,
    UNIQUE (project, name),
    UNIQUE (pool, volume),
    UNIQUE (instance, idx)
);
CREATE INDEX project_volume_image ON project_volume (image) WHERE image IS NOT NULL;

UPDATE version SET schema = 44, min_program = 44;
