-- How a node is switched off when it is lost, and whether that was done: a JSON object.

-- +goose Up
ALTER TABLE node ADD COLUMN fencing text COLLATE "C" NOT NULL DEFAULT '{}';

UPDATE version SET schema = 55, min_program = 55;
