-- Peerings: two networks whose guests reach each other, each pair once and in order.

-- +goose Up
CREATE TABLE network_peer (
    network text NOT NULL REFERENCES network (name) ON DELETE CASCADE,
    other   text NOT NULL REFERENCES network (name) ON DELETE CASCADE,
    PRIMARY KEY (network, other),
    CHECK (network < other)
) STRICT;
CREATE INDEX network_peer_other ON network_peer (other);

UPDATE version SET schema = 41, min_program = 41;
