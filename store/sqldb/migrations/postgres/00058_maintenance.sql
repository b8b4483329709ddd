-- What a node's events come from, and the events that an instance keeps of the nodes that it has left, under their IDs. And the node
-- of what an undone job has left behind.

-- +goose Up
ALTER TABLE maintenance ADD COLUMN cause text COLLATE "C" NOT NULL DEFAULT ''; -- cordon or fence; empty if an operator announced it
ALTER TABLE maintenance DROP CONSTRAINT maintenance_pkey;
ALTER TABLE maintenance ADD PRIMARY KEY (id, node, instance);

-- What a cordon says from now on, for the nodes that are cordoned already.
INSERT INTO maintenance (id, node, instance, code, description, not_before, not_after, state, changed, cause)
  SELECT 'instance-event-' || substr(md5(name || random()::text), 1, 17), name, '', 'system-maintenance', 'The host of this instance is to be maintained',
    cordoned, NULL, 'active', cordoned, 'cordon' FROM node WHERE cordoned IS NOT NULL;
UPDATE feed_node SET revision = revision + 1 WHERE node IN (SELECT name FROM node WHERE cordoned IS NOT NULL);

ALTER TABLE orphan ADD COLUMN node text COLLATE "C" NOT NULL DEFAULT ''; -- empty: that of the job

UPDATE version SET schema = 58;
