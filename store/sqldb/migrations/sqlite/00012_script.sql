-- What provisioning scripts are let out for and bounded by, and what create jobs
-- carry theirs out by. A row of the latter goes with the end of its job.

-- +goose Up
ALTER TABLE script ADD COLUMN options text NOT NULL DEFAULT '{}';

CREATE TABLE job_script (
    job text NOT NULL PRIMARY KEY REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    run text NOT NULL -- JSON, as it was when the job was accepted
) STRICT;

-- The domains that scripts made, for when they are defined anew.
CREATE TABLE instance_script (
    instance text NOT NULL PRIMARY KEY REFERENCES instance (id) ON DELETE CASCADE,
    xml      text NOT NULL -- what create returned
) STRICT;

-- A hook may name provisioner profiles too.
CREATE TABLE hook_profile_either (
    hook    text    NOT NULL REFERENCES hook (name) ON DELETE CASCADE,
    idx     integer NOT NULL,
    profile text    NOT NULL, -- of profile or of provisioner_profile
    PRIMARY KEY (hook, profile)
) STRICT;
INSERT INTO hook_profile_either (hook, idx, profile) SELECT hook, idx, profile FROM hook_profile;
DROP TABLE hook_profile;
ALTER TABLE hook_profile_either RENAME TO hook_profile;
CREATE INDEX hook_profile_profile ON hook_profile (profile);

UPDATE version SET schema = 12;
