-- How far a job has got with a NIC of an existing instance; empty for one that the instance has. added is 1 for a NIC that was not made
-- with its instance.

-- +goose Up
ALTER TABLE nic ADD COLUMN state text NOT NULL DEFAULT '';
ALTER TABLE nic ADD COLUMN added integer NOT NULL DEFAULT 0;

UPDATE version SET schema = 47, min_program = 47;
