-- Overlays: networks that reach all nodes by VXLAN, and where each node gets their frames.

-- +goose Up
ALTER TABLE network ADD COLUMN vni bigint NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN address text COLLATE "C" NOT NULL DEFAULT '';

UPDATE version SET schema = 38, min_program = 38;
