-- Volumes of projects, which exist without an instance and can be attached to one. The disks that were made with an instance stay in the
-- table volume, as before.
--
-- volume is the name in the pool, and owner the ID in the tag there. token is the token that made it, or its instance. instance, idx
-- and bus are those of the instance that has it, and former the idx before the last rebuild.

-- +goose Up
CREATE TABLE project_volume (
    id       text COLLATE "C" NOT NULL PRIMARY KEY,
    project  text COLLATE "C" NOT NULL REFERENCES project (name),
    name     text COLLATE "C" NOT NULL,
    pool     text COLLATE "C" NOT NULL,
    volume   text COLLATE "C" NOT NULL,
    owner    text COLLATE "C" NOT NULL,
    token    text COLLATE "C" NOT NULL DEFAULT '',
    node     text COLLATE "C" NOT NULL, -- empty if the pool is shared
    state    text COLLATE "C" NOT NULL,
    size     bigint NOT NULL,
    image    text COLLATE "C",
    instance text COLLATE "C",
    idx      bigint,
    former   bigint,
    bus      text COLLATE "C" NOT NULL DEFAULT '',
    keep     bigint NOT NULL DEFAULT 1,
    revision bigint NOT NULL,
    created  bigint NOT NULL,
    UNIQUE (project, name),
    UNIQUE (pool, volume),
    UNIQUE (instance, idx)
);
CREATE INDEX project_volume_token ON project_volume (token) WHERE token <> '';
CREATE INDEX project_volume_image ON project_volume (image) WHERE image IS NOT NULL;

UPDATE version SET schema = 44, min_program = 44;
