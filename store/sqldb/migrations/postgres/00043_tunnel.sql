-- Where a node gets encrypted frames of overlays: its public key and UDP port, as JSON.

-- +goose Up
ALTER TABLE node ADD COLUMN tunnel text COLLATE "C" NOT NULL DEFAULT '';

UPDATE version SET schema = 43, min_program = 43;
