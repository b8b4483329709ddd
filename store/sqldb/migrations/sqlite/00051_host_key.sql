-- The public key of the SSH server of an instance's guest, which it reported.

-- +goose Up
ALTER TABLE instance ADD COLUMN host_key text NOT NULL DEFAULT '';

UPDATE version SET schema = 51, min_program = 51;
