-- Deliveries that were carried out without a job have an empty one, and say what was done.

-- +goose Up
ALTER TABLE delivery ADD COLUMN detail text COLLATE "C" NOT NULL DEFAULT '';

UPDATE version SET schema = 40;
