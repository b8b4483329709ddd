-- Bridged networks: the interface by which the nodes reach one, and its VLAN. Its NICs may have addresses that come
-- from elsewhere, and then none here.

-- +goose Up
ALTER TABLE network ADD COLUMN uplink text NOT NULL DEFAULT '';
ALTER TABLE network ADD COLUMN vlan bigint NOT NULL DEFAULT 0;
ALTER TABLE nic ALTER COLUMN addr DROP NOT NULL;

UPDATE version SET schema = 33, min_program = 33;
