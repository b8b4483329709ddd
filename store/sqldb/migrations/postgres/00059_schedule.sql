-- The schedules by which backups and snapshots are made, and which snapshots they have made.

-- +goose Up
CREATE TABLE schedule (
    kind     text COLLATE "C" NOT NULL, -- backup or snapshot
    name     text COLLATE "C" NOT NULL,
    project  text COLLATE "C" NOT NULL REFERENCES project (name),
    target   text COLLATE "C" REFERENCES backup_target (name), -- NULL for snapshots
    cron     text COLLATE "C" NOT NULL,
    settings text COLLATE "C" NOT NULL, -- JSON
    last     text COLLATE "C" NOT NULL, -- JSON: what it did last; null for nothing yet
    revision bigint NOT NULL,
    created  bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE INDEX schedule_target ON schedule (target);
INSERT INTO schedule (kind, name, project, target, cron, settings, last, revision, created)
  SELECT 'backup', name, project, target, cron, json_build_object('profile', profile, 'tag', tag)::text, 'null', revision, created FROM backup_schedule;
DROP TABLE backup_schedule;
ALTER TABLE snapshot ADD COLUMN schedule text COLLATE "C" NOT NULL DEFAULT ''; -- that has made it; empty for none
ALTER TABLE snapshot ADD COLUMN taken bigint NOT NULL DEFAULT 0;
CREATE INDEX snapshot_schedule ON snapshot (schedule) WHERE schedule <> '';

UPDATE version SET schema = 59, min_program = 59;
