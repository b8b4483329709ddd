-- What guests are served besides user-data. Every column has a default: the
-- release before goes on working on this schema.

-- +goose Up
ALTER TABLE profile ADD COLUMN vendor_data    blob;
ALTER TABLE profile ADD COLUMN vendor_in_user integer NOT NULL DEFAULT 0;
ALTER TABLE profile ADD COLUMN datasource     text    NOT NULL DEFAULT 'ec2';
ALTER TABLE profile ADD COLUMN metadata       text    NOT NULL DEFAULT '{}';
ALTER TABLE profile ADD COLUMN tags           text    NOT NULL DEFAULT '{}';

ALTER TABLE instance ADD COLUMN vendor_data blob;
ALTER TABLE instance ADD COLUMN datasource  text NOT NULL DEFAULT 'ec2';
ALTER TABLE instance ADD COLUMN metadata    text NOT NULL DEFAULT '{}';
ALTER TABLE instance ADD COLUMN tags        text NOT NULL DEFAULT '{}';
ALTER TABLE instance ADD COLUMN spot        text NOT NULL DEFAULT 'null';
ALTER TABLE instance ADD COLUMN password    text NOT NULL DEFAULT '';

ALTER TABLE network ADD COLUMN identity text NOT NULL DEFAULT 'tap';
ALTER TABLE network ADD COLUMN allow    text NOT NULL DEFAULT '{}';

ALTER TABLE feed ADD COLUMN vendor text REFERENCES blob (sha256);
CREATE INDEX feed_vendor ON feed (vendor);

-- An event is of a node, with an empty instance, or of an instance, with an empty node.
CREATE TABLE maintenance (
    id          text    NOT NULL PRIMARY KEY,
    node        text    NOT NULL,
    instance    text    NOT NULL,
    code        text    NOT NULL,
    description text    NOT NULL,
    not_before  integer NOT NULL,
    not_after   integer,
    state       text    NOT NULL,
    changed     integer NOT NULL
) STRICT;
CREATE INDEX maintenance_node ON maintenance (node, changed);
CREATE INDEX maintenance_instance ON maintenance (instance, changed);

UPDATE version SET schema = 2;
