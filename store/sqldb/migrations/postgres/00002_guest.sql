-- What guests are served besides user-data. Every column has a default: the
-- release before goes on working on this schema.

-- +goose Up
ALTER TABLE profile ADD COLUMN vendor_data bytea;
ALTER TABLE profile ADD COLUMN vendor_in_user bigint NOT NULL DEFAULT 0;
ALTER TABLE profile ADD COLUMN datasource text COLLATE "C" NOT NULL DEFAULT 'ec2';
ALTER TABLE profile ADD COLUMN metadata text COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE profile ADD COLUMN tags text COLLATE "C" NOT NULL DEFAULT '{}';

ALTER TABLE instance ADD COLUMN vendor_data bytea;
ALTER TABLE instance ADD COLUMN datasource text COLLATE "C" NOT NULL DEFAULT 'ec2';
ALTER TABLE instance ADD COLUMN metadata text COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE instance ADD COLUMN tags text COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE instance ADD COLUMN spot text COLLATE "C" NOT NULL DEFAULT 'null';
ALTER TABLE instance ADD COLUMN password text COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE network ADD COLUMN identity text COLLATE "C" NOT NULL DEFAULT 'tap';
ALTER TABLE network ADD COLUMN allow text COLLATE "C" NOT NULL DEFAULT '{}';

ALTER TABLE feed ADD COLUMN vendor text COLLATE "C" REFERENCES blob (sha256);
CREATE INDEX feed_vendor ON feed (vendor);

-- An event is of a node, with an empty instance, or of an instance, with an empty node.
CREATE TABLE maintenance (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    node text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    description text COLLATE "C" NOT NULL,
    not_before bigint NOT NULL,
    not_after bigint,
    state text COLLATE "C" NOT NULL,
    changed bigint NOT NULL
);
CREATE INDEX maintenance_node ON maintenance (node, changed);
CREATE INDEX maintenance_instance ON maintenance (instance, changed);

UPDATE version SET schema = 2;
