-- What a create writes, less of it. An instance claims its ID and name, MACs and
-- addresses by the unique keys of its own rows, so that claims are left to images.
-- Which hook it is of stands in its row.
--
-- A foreign key is looked up for each row. Those that are gone here hold nothing that
-- could be otherwise: networks are never deleted, and the NICs and volumes of an
-- instance are written with it, in one transaction, and go with it by a trigger.
-- Volumes stand in the order of their key.
--
-- A program of the release before would look for names and addresses among the
-- claims, and must not go on.

-- +goose Up
DELETE FROM claim WHERE kind <> 'image';

ALTER TABLE instance ADD COLUMN hook text NOT NULL DEFAULT ''; -- by which it was made
UPDATE instance SET hook = COALESCE((SELECT hook FROM hook_instance WHERE hook_instance.instance = instance.id), '');
DROP TABLE hook_instance;
CREATE INDEX instance_hook ON instance (hook) WHERE hook <> '';

-- Most instances are being made only for a while: they then have no place among
-- all names of their state, which is another page for each, but one in the order
-- in which they are made.
DROP INDEX instance_state;
CREATE INDEX instance_state ON instance (state, name, profile) WHERE state <> 'provisioning';
CREATE INDEX instance_making ON instance (state, id) WHERE state = 'provisioning';
-- Jobs that have not ended are found by job_live.
DROP INDEX job_unsuccessful;
CREATE INDEX job_unsuccessful ON job (state, created, id, kind) WHERE state IN ('failed', 'rolled_back', 'rollback_incomplete');

CREATE TABLE nic_after (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (id <= 2147483647),
    instance text    NOT NULL,
    idx      integer NOT NULL,
    mac      text    NOT NULL UNIQUE,
    network  text    NOT NULL,
    addr     text    NOT NULL,
    UNIQUE (instance, idx),
    UNIQUE (network, addr)
) STRICT;
INSERT INTO sqlite_sequence (name, seq) SELECT 'nic_after', seq FROM sqlite_sequence WHERE name = 'nic';
INSERT INTO nic_after (id, instance, idx, mac, network, addr) SELECT id, instance, idx, mac, network, addr FROM nic;
DROP TABLE nic;
ALTER TABLE nic_after RENAME TO nic;

CREATE TABLE volume_after (
    pool     text    NOT NULL,
    name     text    NOT NULL,
    instance text    NOT NULL,
    idx      integer NOT NULL,
    size     integer NOT NULL,
    image    text REFERENCES image (name),
    PRIMARY KEY (pool, name),
    UNIQUE (instance, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO volume_after (pool, name, instance, idx, size, image) SELECT pool, name, instance, idx, size, image FROM volume;
DROP TABLE volume;
ALTER TABLE volume_after RENAME TO volume;
CREATE INDEX volume_image ON volume (image);

-- +goose StatementBegin
CREATE TRIGGER instance_parts AFTER DELETE ON instance BEGIN
    DELETE FROM nic WHERE instance = OLD.id;
    DELETE FROM volume WHERE instance = OLD.id;
END;
-- +goose StatementEnd

UPDATE version SET schema = 16, min_program = 16;
