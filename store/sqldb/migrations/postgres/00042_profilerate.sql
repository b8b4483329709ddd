-- Rates of the NICs of a profile, in bits a second.

-- +goose Up
ALTER TABLE profile ADD COLUMN bandwidth_in bigint NOT NULL DEFAULT 0;
ALTER TABLE profile ADD COLUMN bandwidth_out bigint NOT NULL DEFAULT 0;

UPDATE version SET schema = 42, min_program = 42;
