-- Peers: what nodes are told of guests of other nodes, in networks that reach several. No release has had such
-- networks with guests, so there is nothing to carry over.

-- +goose Up
-- A row without a record is a tombstone.
CREATE TABLE peer (
    instance text COLLATE "C" NOT NULL PRIMARY KEY,
    node text COLLATE "C" NOT NULL,
    revision bigint NOT NULL UNIQUE,
    record text COLLATE "C"
);
CREATE INDEX peer_gone ON peer (revision) WHERE record IS NULL;

-- The one row, of the first peer on, has the last revision of peers, and that from before which a resume would miss tombstones.
CREATE TABLE peer_head (
    id bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    revision bigint NOT NULL,
    floor bigint NOT NULL
);

UPDATE version SET schema = 37, min_program = 37;
