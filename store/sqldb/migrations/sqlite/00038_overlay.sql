-- Overlays: networks that reach all nodes by VXLAN, and where each node gets their frames.

-- +goose Up
ALTER TABLE network ADD COLUMN vni integer NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN address text NOT NULL DEFAULT '';

UPDATE version SET schema = 38, min_program = 38;
