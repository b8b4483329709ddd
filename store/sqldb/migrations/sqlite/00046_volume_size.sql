-- Volumes of projects that are made larger, and how fast they may be. wanted is the size that a job is giving one, and 0 without such a
-- job. limits is a JSON object, and empty without limits.

-- +goose Up
ALTER TABLE project_volume ADD COLUMN wanted integer NOT NULL DEFAULT 0;
ALTER TABLE project_volume ADD COLUMN limits text NOT NULL DEFAULT '';

UPDATE version SET schema = 46, min_program = 46;
