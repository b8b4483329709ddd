-- When an instance is stopped or removed by itself, in microseconds, and which of the two; and notes for people.

-- +goose Up
ALTER TABLE instance ADD COLUMN expires integer;
ALTER TABLE instance ADD COLUMN at_expiry text NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN notes text NOT NULL DEFAULT '';
CREATE INDEX instance_expires ON instance (expires) WHERE expires IS NOT NULL;

UPDATE version SET schema = 48, min_program = 48;
