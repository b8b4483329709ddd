-- Placement groups, and the memory of instances that are started elsewhere when their node is lost.

-- +goose Up
CREATE TABLE placement_group (
    name        text COLLATE "C" NOT NULL PRIMARY KEY, -- qualified
    policy      text COLLATE "C" NOT NULL,
    description text COLLATE "C" NOT NULL,
    created     bigint NOT NULL
);
ALTER TABLE instance ADD COLUMN placement_group text COLLATE "C" REFERENCES placement_group (name);
CREATE INDEX instance_placement_group ON instance (placement_group) WHERE placement_group IS NOT NULL;
ALTER TABLE profile ADD COLUMN placement_group text COLLATE "C" NOT NULL DEFAULT ''; -- without the project
ALTER TABLE instance ADD COLUMN restarts bigint NOT NULL DEFAULT 0; -- 1 if restart is always
UPDATE instance SET restarts = 1 WHERE system LIKE '%"restart":"always"%';
CREATE INDEX instance_restarts ON instance (node, memory) WHERE restarts = 1;

UPDATE version SET schema = 56, min_program = 56;
