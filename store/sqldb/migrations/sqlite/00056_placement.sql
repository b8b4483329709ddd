-- Placement groups, and the memory of instances that are started elsewhere when their node is lost.

-- +goose Up
CREATE TABLE placement_group (
    name        text NOT NULL PRIMARY KEY, -- qualified
    policy      text NOT NULL,
    description text NOT NULL,
    created     integer NOT NULL
) STRICT;
ALTER TABLE instance ADD COLUMN placement_group text REFERENCES placement_group (name);
CREATE INDEX instance_placement_group ON instance (placement_group) WHERE placement_group IS NOT NULL;
ALTER TABLE profile ADD COLUMN placement_group text NOT NULL DEFAULT ''; -- without the project
ALTER TABLE instance ADD COLUMN restarts integer NOT NULL DEFAULT 0; -- 1 if restart is always
UPDATE instance SET restarts = 1 WHERE system LIKE '%"restart":"always"%';
CREATE INDEX instance_restarts ON instance (node, memory) WHERE restarts = 1;

UPDATE version SET schema = 56, min_program = 56;
