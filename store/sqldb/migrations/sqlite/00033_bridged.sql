-- Bridged networks: the interface by which the nodes reach one, and its VLAN. Its NICs may have addresses that come
-- from elsewhere, and then none here.

-- +goose Up
ALTER TABLE network ADD COLUMN uplink text NOT NULL DEFAULT '';
ALTER TABLE network ADD COLUMN vlan integer NOT NULL DEFAULT 0;

DROP TRIGGER instance_parts;
CREATE TABLE nic_after (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (id <= 2147483647),
    instance text    NOT NULL,
    idx      integer NOT NULL,
    mac      text    NOT NULL UNIQUE,
    network  text    NOT NULL,
    addr     text,
    UNIQUE (instance, idx),
    UNIQUE (network, addr)
) STRICT;
INSERT INTO sqlite_sequence (name, seq) SELECT 'nic_after', seq FROM sqlite_sequence WHERE name = 'nic';
INSERT INTO nic_after (id, instance, idx, mac, network, addr) SELECT id, instance, idx, mac, network, addr FROM nic;
DROP TABLE nic;
ALTER TABLE nic_after RENAME TO nic;
-- +goose StatementBegin
CREATE TRIGGER instance_parts AFTER DELETE ON instance BEGIN
    DELETE FROM nic WHERE instance = OLD.id;
    DELETE FROM volume WHERE instance = OLD.id;
END;
-- +goose StatementEnd

UPDATE version SET schema = 33, min_program = 33;
