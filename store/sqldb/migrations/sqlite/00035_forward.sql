-- Forwards: ports of the nodes that go to NICs.

-- +goose Up
ALTER TABLE nic ADD COLUMN forwards text NOT NULL DEFAULT '[]'; -- JSON
CREATE INDEX nic_forwards ON nic (network) WHERE forwards <> '[]';

UPDATE version SET schema = 35, min_program = 35;
