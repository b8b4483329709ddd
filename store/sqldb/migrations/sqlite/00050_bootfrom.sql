-- What the firmware of a profile's instances boots from: empty or 'disk' for the first disk, 'network' for the network of NIC 0 before it.

-- +goose Up
ALTER TABLE profile ADD COLUMN boot_from text NOT NULL DEFAULT '';

UPDATE version SET schema = 50, min_program = 50;
