-- Secondary addresses, which NICs have besides their first, and rates of single NICs in bits a second.

-- +goose Up
CREATE TABLE secondary_address (
    network  text    NOT NULL,
    addr     text    NOT NULL,
    instance text    NOT NULL,
    nic      integer NOT NULL,
    PRIMARY KEY (network, addr),
    FOREIGN KEY (instance, nic) REFERENCES nic (instance, idx) ON DELETE CASCADE
) STRICT;
CREATE INDEX secondary_address_nic ON secondary_address (instance, nic);
ALTER TABLE nic ADD COLUMN bandwidth_in integer NOT NULL DEFAULT 0;
ALTER TABLE nic ADD COLUMN bandwidth_out integer NOT NULL DEFAULT 0;

UPDATE version SET schema = 39, min_program = 39;
