-- What a node's events come from, and the events that an instance keeps of the nodes that it has left, under their IDs. And the node
-- of what an undone job has left behind.

-- +goose Up
CREATE TABLE maintenance_new (
    id          text    NOT NULL,
    node        text    NOT NULL,
    instance    text    NOT NULL,
    code        text    NOT NULL,
    description text    NOT NULL,
    not_before  integer NOT NULL,
    not_after   integer,
    state       text    NOT NULL,
    changed     integer NOT NULL,
    cause       text    NOT NULL DEFAULT '', -- cordon or fence; empty if an operator announced it
    PRIMARY KEY (id, node, instance)
) STRICT;
INSERT INTO maintenance_new (id, node, instance, code, description, not_before, not_after, state, changed)
  SELECT id, node, instance, code, description, not_before, not_after, state, changed FROM maintenance;
DROP TABLE maintenance;
ALTER TABLE maintenance_new RENAME TO maintenance;
CREATE INDEX maintenance_node ON maintenance (node, changed);
CREATE INDEX maintenance_instance ON maintenance (instance, changed);

-- What a cordon says from now on, for the nodes that are cordoned already.
INSERT INTO maintenance (id, node, instance, code, description, not_before, not_after, state, changed, cause)
  SELECT 'instance-event-' || substr(lower(hex(randomblob(9))), 1, 17), name, '', 'system-maintenance', 'The host of this instance is to be maintained',
    cordoned, NULL, 'active', cordoned, 'cordon' FROM node WHERE cordoned IS NOT NULL;
UPDATE feed_node SET revision = revision + 1 WHERE node IN (SELECT name FROM node WHERE cordoned IS NOT NULL);

ALTER TABLE orphan ADD COLUMN node text NOT NULL DEFAULT ''; -- empty: that of the job

UPDATE version SET schema = 58;
