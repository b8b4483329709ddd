-- The schedules by which backups and snapshots are made, and which snapshots they have made.

-- +goose Up
CREATE TABLE schedule (
    kind     text NOT NULL, -- backup or snapshot
    name     text NOT NULL,
    project  text NOT NULL REFERENCES project (name),
    target   text REFERENCES backup_target (name), -- NULL for snapshots
    cron     text NOT NULL,
    settings text NOT NULL, -- JSON
    last     text NOT NULL, -- JSON: what it did last; null for nothing yet
    revision integer NOT NULL,
    created  integer NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;
CREATE INDEX schedule_target ON schedule (target);
INSERT INTO schedule (kind, name, project, target, cron, settings, last, revision, created)
  SELECT 'backup', name, project, target, cron, json_object('profile', profile, 'tag', tag), 'null', revision, created FROM backup_schedule;
DROP TABLE backup_schedule;
ALTER TABLE snapshot ADD COLUMN schedule text NOT NULL DEFAULT ''; -- that has made it; empty for none
ALTER TABLE snapshot ADD COLUMN taken integer NOT NULL DEFAULT 0;
CREATE INDEX snapshot_schedule ON snapshot (schedule) WHERE schedule <> '';

UPDATE version SET schema = 59, min_program = 59;
