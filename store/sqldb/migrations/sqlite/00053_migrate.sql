-- The node that an instance is on its way to while a job takes it there, and the one to which it is to go back some time; empty for none.

-- +goose Up
ALTER TABLE instance ADD COLUMN target text NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN home text NOT NULL DEFAULT '';

UPDATE version SET schema = 53, min_program = 53;
