-- What a node's events come from, and the events that an instance keeps of the nodes that it has left, under their IDs. And the node
-- of what an undone job has left behind.

-- +goose Up
ALTER TABLE maintenance ADD COLUMN cause text COLLATE "C" NOT NULL DEFAULT ''; -- cordon or fence; empty if an operator announced it
ALTER TABLE maintenance DROP CONSTRAINT maintenance_pkey;
ALTER TABLE maintenance ADD PRIMARY KEY (id, node, instance);

ALTER TABLE orphan ADD COLUMN node text COLLATE "C" NOT NULL DEFAULT ''; -- empty: that of the job

UPDATE version SET schema = 58;
