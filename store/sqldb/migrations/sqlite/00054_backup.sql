-- The targets of backups, with their secrets, and the schedules by which backups are made.

-- +goose Up
CREATE TABLE backup_target (
    name     text NOT NULL PRIMARY KEY,
    settings text NOT NULL, -- JSON
    secret   text NOT NULL, -- empty for none, as the next two
    identity text NOT NULL,
    name_key text NOT NULL,
    revision integer NOT NULL,
    created  integer NOT NULL,
    changed  integer NOT NULL
) STRICT;
CREATE TABLE backup_schedule (
    name     text NOT NULL PRIMARY KEY,
    project  text NOT NULL REFERENCES project (name),
    target   text NOT NULL REFERENCES backup_target (name),
    cron     text NOT NULL,
    profile  text NOT NULL, -- empty for none, as the next one
    tag      text NOT NULL,
    revision integer NOT NULL,
    created  integer NOT NULL
) STRICT;
CREATE INDEX backup_schedule_target ON backup_schedule (target);

UPDATE version SET schema = 54, min_program = 54;
