-- Floating addresses of IPv6: a NIC may have one of each version of IP.

-- +goose Up
ALTER TABLE nic ADD COLUMN floating6 text;
CREATE UNIQUE INDEX nic_floating6 ON nic (floating6) WHERE floating6 IS NOT NULL;

UPDATE version SET schema = 45, min_program = 45;
