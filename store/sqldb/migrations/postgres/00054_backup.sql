-- The targets of backups, with their secrets, and the schedules by which backups are made.

-- +goose Up
CREATE TABLE backup_target (
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    settings text COLLATE "C" NOT NULL, -- JSON
    secret   text COLLATE "C" NOT NULL, -- empty for none, as the next two
    identity text COLLATE "C" NOT NULL,
    name_key text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    created  bigint NOT NULL,
    changed  bigint NOT NULL
);
CREATE TABLE backup_schedule (
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    project  text COLLATE "C" NOT NULL REFERENCES project (name),
    target   text COLLATE "C" NOT NULL REFERENCES backup_target (name),
    cron     text COLLATE "C" NOT NULL,
    profile  text COLLATE "C" NOT NULL, -- empty for none, as the next one
    tag      text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    created  bigint NOT NULL
);
CREATE INDEX backup_schedule_target ON backup_schedule (target);

UPDATE version SET schema = 54, min_program = 54;
