-- Floating addresses: what networks lend to projects, and the NICs that have them.

-- +goose Up
CREATE TABLE floating_address (
    addr        text COLLATE "C" NOT NULL PRIMARY KEY,
    network     text COLLATE "C" NOT NULL,
    project     text COLLATE "C" NOT NULL,
    description text COLLATE "C" NOT NULL,
    created     bigint NOT NULL
);
CREATE INDEX floating_address_network ON floating_address (network);
CREATE INDEX floating_address_project ON floating_address (project);
ALTER TABLE nic ADD COLUMN floating text COLLATE "C";
CREATE UNIQUE INDEX nic_floating ON nic (floating) WHERE floating IS NOT NULL;

UPDATE version SET schema = 36, min_program = 36;
