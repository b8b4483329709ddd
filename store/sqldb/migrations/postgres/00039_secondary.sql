-- Secondary addresses: those that NICs have besides their first.

-- +goose Up
CREATE TABLE secondary_address (
    network text COLLATE "C" NOT NULL,
    addr    text COLLATE "C" NOT NULL,
    nic     bigint NOT NULL REFERENCES nic (id) ON DELETE CASCADE,
    PRIMARY KEY (network, addr)
);
CREATE INDEX secondary_address_nic ON secondary_address (nic);

UPDATE version SET schema = 39, min_program = 39;
