-- Whether the current stage of a job cannot be undone. Programs before told that by the stage's name.

-- +goose Up
ALTER TABLE job ADD COLUMN final bigint NOT NULL DEFAULT 0;
UPDATE job SET final = 1 WHERE kind = 'rebuild' AND stage = 'delete' OR kind = 'resize' AND stage = 'grow' OR
  kind = 'create' AND stage = 'release-volumes';

UPDATE version SET schema = 22, min_program = 22;
