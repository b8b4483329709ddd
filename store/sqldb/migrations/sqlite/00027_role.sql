-- Roles that were made, and tokens that act in several projects.

-- +goose Up
CREATE TABLE role (
    name        text    NOT NULL PRIMARY KEY,
    description text    NOT NULL,
    actions     text    NOT NULL, -- JSON
    revision    integer NOT NULL,
    created     integer NOT NULL,
    changed     integer NOT NULL
) STRICT;
ALTER TABLE token ADD COLUMN grants text NOT NULL DEFAULT '[]'; -- JSON

UPDATE version SET schema = 27;
