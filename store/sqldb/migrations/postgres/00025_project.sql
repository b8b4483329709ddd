-- Projects: who owns instances and what comes of them. What exists belongs to the project default.

-- +goose Up
CREATE TABLE project (
    name        text COLLATE "C" NOT NULL PRIMARY KEY,
    number      text COLLATE "C" NOT NULL UNIQUE, -- of its account: twelve digits
    description text COLLATE "C" NOT NULL,
    quota       text COLLATE "C" NOT NULL, -- JSON
    revision    bigint NOT NULL,
    created     bigint NOT NULL,
    changed     bigint NOT NULL
);
-- A name or number is not given again, because jobs and the audit log keep it.
CREATE TABLE project_removed (
    name   text COLLATE "C" NOT NULL PRIMARY KEY,
    number text COLLATE "C" NOT NULL UNIQUE
);
INSERT INTO project (name, number, description, quota, revision, created, changed)
  SELECT 'default', CAST(CAST(100000000000 + floor(random() * 900000000000) AS bigint) AS text), '', '{}', 1, t.at, t.at
  FROM (SELECT CAST(extract(epoch FROM now()) * 1000000 AS bigint) AS at) AS t;

-- A name is unique in its project.
ALTER TABLE instance ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT 'default' REFERENCES project (name);
ALTER TABLE instance ALTER COLUMN project DROP DEFAULT;
ALTER TABLE instance DROP CONSTRAINT instance_name_key;
ALTER TABLE instance ADD CONSTRAINT instance_project_name_key UNIQUE (project, name);
DROP INDEX instance_state;
CREATE INDEX instance_state ON instance (state, project, name, profile) WHERE state <> 'provisioning';
DROP INDEX instance_making;
CREATE INDEX instance_making ON instance (state, project, name) WHERE state = 'provisioning';
DROP INDEX instance_profile;
CREATE INDEX instance_profile ON instance (profile, project, name, state) WHERE state <> 'provisioning';

ALTER TABLE job ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT 'default';
-- The jobs of one project; the indexes without the project are for those of all.
DROP INDEX job_live;
CREATE INDEX job_live ON job (project, blocked, priority DESC, created, id) WHERE state IN ('queued', 'running', 'undoing');
CREATE INDEX job_ended_in ON job (project, created, id) WHERE state NOT IN ('queued', 'running', 'undoing');
CREATE INDEX job_unsuccessful_in ON job (project, state, created, id, kind)
  WHERE state IN ('failed', 'rolled_back', 'rollback_incomplete');
CREATE INDEX job_kind_in ON job (project, kind, created, id, state) WHERE kind <> 'create';

ALTER TABLE token ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE hook ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE endpoint ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE audit ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT 'default';

UPDATE version SET schema = 25, min_program = 25;
