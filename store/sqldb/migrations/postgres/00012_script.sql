-- What provisioning scripts are let out for and bounded by, and what create jobs
-- carry theirs out by. A row of the latter goes with the end of its job.

-- +goose Up
ALTER TABLE script ADD COLUMN options text COLLATE "C" NOT NULL DEFAULT '{}';

CREATE TABLE job_script (
    job text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    run text COLLATE "C" NOT NULL -- JSON, as it was when the job was accepted
);

-- The domains that scripts made, for when they are defined anew.
CREATE TABLE instance_script (
    instance text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES instance (id) ON DELETE CASCADE,
    xml      text COLLATE "C" NOT NULL -- what create returned
);

-- A hook may name provisioner profiles too.
ALTER TABLE hook_profile DROP CONSTRAINT hook_profile_profile_fkey;

UPDATE version SET schema = 12;
