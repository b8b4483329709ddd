-- Secondary addresses, which NICs have besides their first, and rates of single NICs in bits a second.

-- +goose Up
CREATE TABLE secondary_address (
    network text    NOT NULL,
    addr    text    NOT NULL,
    nic     integer NOT NULL REFERENCES nic (id) ON DELETE CASCADE,
    PRIMARY KEY (network, addr)
) STRICT;
CREATE INDEX secondary_address_nic ON secondary_address (nic);
ALTER TABLE nic ADD COLUMN bandwidth_in integer NOT NULL DEFAULT 0;
ALTER TABLE nic ADD COLUMN bandwidth_out integer NOT NULL DEFAULT 0;

UPDATE version SET schema = 39, min_program = 39;
