-- The NICs that a profile lists. A profile of before has none of these: it has a network, a network template or both.

-- +goose Up
ALTER TABLE profile ADD COLUMN nics text NOT NULL DEFAULT '[]'; -- JSON

UPDATE version SET schema = 49, min_program = 49;
