-- Projects: who owns instances and what comes of them. What exists belongs to the project default.

-- +goose Up
CREATE TABLE project (
    name        text    NOT NULL PRIMARY KEY,
    number      text    NOT NULL UNIQUE, -- of its account: twelve digits
    description text    NOT NULL,
    quota       text    NOT NULL, -- JSON
    revision    integer NOT NULL,
    created     integer NOT NULL,
    changed     integer NOT NULL
) STRICT;
-- A name or number is not given again, because jobs and the audit log keep it.
CREATE TABLE project_removed (
    name   text NOT NULL PRIMARY KEY,
    number text NOT NULL UNIQUE
) STRICT;
INSERT INTO project (name, number, description, quota, revision, created, changed)
  SELECT 'default', substr('100000000000' + abs(random() % 900000000000), 1, 12), '', '{}', 1, t.at, t.at
  FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS integer) AS at) AS t;

-- A name is unique in its project. SQLite cannot drop the old constraint, so the table is made anew.
CREATE TABLE lease_before AS SELECT * FROM lease;
DELETE FROM lease;
CREATE TABLE script_before AS SELECT * FROM instance_script;
DELETE FROM instance_script;
DROP TRIGGER instance_parts;
CREATE TABLE instance_after (
    id           text    NOT NULL PRIMARY KEY,
    name         text    NOT NULL,
    profile      text    NOT NULL,
    image        text    NOT NULL,
    node         text    NOT NULL,
    state        text    NOT NULL,
    vcpus        integer NOT NULL,
    memory       integer NOT NULL,
    ready        text    NOT NULL,
    held         integer NOT NULL,
    user_data    blob,
    ssh_keys     text    NOT NULL,
    report_token text    NOT NULL,
    revision     integer NOT NULL,
    created      integer NOT NULL,
    changed      integer NOT NULL,
    fetched      integer,
    reported     integer,
    gone_since   integer,
    vendor_data  blob,
    datasource   text    NOT NULL DEFAULT 'ec2',
    metadata     text    NOT NULL DEFAULT '{}',
    tags         text    NOT NULL DEFAULT '{}',
    spot         text    NOT NULL DEFAULT 'null',
    password     text    NOT NULL DEFAULT '',
    protected    integer NOT NULL DEFAULT 0,
    follow       text    NOT NULL DEFAULT 'pinned',
    source       text    NOT NULL DEFAULT '', -- the revisions that its user-data was made from
    params       text    NOT NULL DEFAULT 'null', -- may be secret
    system       text    NOT NULL DEFAULT '{"serial":true,"vnc":false,"autostart":false}',
    token        text    NOT NULL DEFAULT '', -- by which it was made
    hook         text    NOT NULL DEFAULT '', -- by which it was made
    project      text    NOT NULL REFERENCES project (name),
    UNIQUE (project, name)
) STRICT;
INSERT INTO instance_after (id, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, report_token, revision,
    created, changed, fetched, reported, gone_since, vendor_data, datasource, metadata, tags, spot, password, protected, follow, source, params,
    system, token, hook, project)
  SELECT id, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, report_token, revision,
    created, changed, fetched, reported, gone_since, vendor_data, datasource, metadata, tags, spot, password, protected, follow, source, params,
    system, token, hook, 'default' FROM instance;
DROP TABLE instance;
ALTER TABLE instance_after RENAME TO instance;
CREATE INDEX instance_token ON instance (token, vcpus, memory) WHERE token <> '';
CREATE INDEX instance_hook ON instance (hook) WHERE hook <> '';
CREATE INDEX instance_state ON instance (state, project, name, profile) WHERE state <> 'provisioning';
CREATE INDEX instance_making ON instance (state, project, name) WHERE state = 'provisioning';
CREATE INDEX instance_profile ON instance (profile, project, name, state) WHERE state <> 'provisioning';
CREATE INDEX instance_live ON instance (profile, source, state, id) WHERE follow = 'live';
-- +goose StatementBegin
CREATE TRIGGER instance_parts AFTER DELETE ON instance BEGIN
    DELETE FROM nic WHERE instance = OLD.id;
    DELETE FROM volume WHERE instance = OLD.id;
END;
-- +goose StatementEnd
INSERT INTO lease SELECT * FROM lease_before;
DROP TABLE lease_before;
INSERT INTO instance_script SELECT * FROM script_before;
DROP TABLE script_before;

ALTER TABLE job ADD COLUMN project text NOT NULL DEFAULT 'default';
-- The jobs of one project; the indexes without the project are for those of all.
DROP INDEX job_live;
CREATE INDEX job_live ON job (project, blocked, priority DESC, created, id) WHERE state IN ('queued', 'running', 'undoing');
CREATE INDEX job_ended_in ON job (project, created, id) WHERE state NOT IN ('queued', 'running', 'undoing');
CREATE INDEX job_unsuccessful_in ON job (project, state, created, id, kind)
  WHERE state IN ('failed', 'rolled_back', 'rollback_incomplete');
CREATE INDEX job_kind_in ON job (project, kind, created, id, state) WHERE kind <> 'create';

ALTER TABLE token ADD COLUMN project text NOT NULL DEFAULT 'default';
ALTER TABLE hook ADD COLUMN project text NOT NULL DEFAULT 'default';
ALTER TABLE endpoint ADD COLUMN project text NOT NULL DEFAULT 'default';
ALTER TABLE audit ADD COLUMN project text NOT NULL DEFAULT 'default';

UPDATE version SET schema = 25, min_program = 25;
