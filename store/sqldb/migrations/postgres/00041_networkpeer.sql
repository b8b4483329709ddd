-- Peerings: two networks whose guests reach each other, each pair once and in order.

-- +goose Up
CREATE TABLE network_peer (
    network text COLLATE "C" NOT NULL REFERENCES network (name) ON DELETE CASCADE,
    other   text COLLATE "C" NOT NULL REFERENCES network (name) ON DELETE CASCADE,
    PRIMARY KEY (network, other),
    CHECK (network < other)
);
CREATE INDEX network_peer_other ON network_peer (other);

UPDATE version SET schema = 41, min_program = 41;
