-- Secondary addresses, which NICs have besides their first, and rates of single NICs in bits a second.

-- +goose Up
CREATE TABLE secondary_address (
    network  text COLLATE "C" NOT NULL,
    addr     text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    nic      bigint NOT NULL,
    PRIMARY KEY (network, addr),
    FOREIGN KEY (instance, nic) REFERENCES nic (instance, idx) ON DELETE CASCADE
);
CREATE INDEX secondary_address_nic ON secondary_address (instance, nic);
ALTER TABLE nic ADD COLUMN bandwidth_in bigint NOT NULL DEFAULT 0;
ALTER TABLE nic ADD COLUMN bandwidth_out bigint NOT NULL DEFAULT 0;

UPDATE version SET schema = 39, min_program = 39;
