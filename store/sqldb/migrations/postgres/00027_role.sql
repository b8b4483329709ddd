-- Roles that were made, and tokens that act in several projects.

-- +goose Up
CREATE TABLE role (
    name        text COLLATE "C" NOT NULL PRIMARY KEY,
    description text COLLATE "C" NOT NULL,
    actions     text COLLATE "C" NOT NULL, -- JSON
    revision    bigint NOT NULL,
    created     bigint NOT NULL,
    changed     bigint NOT NULL
);
ALTER TABLE token ADD COLUMN grants text COLLATE "C" NOT NULL DEFAULT '[]'; -- JSON

UPDATE version SET schema = 27;
