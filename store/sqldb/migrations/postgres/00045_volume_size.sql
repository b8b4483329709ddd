-- Volumes of projects that are made larger. wanted is the size that a job is giving one, and 0 without such a job.

-- +goose Up
ALTER TABLE project_volume ADD COLUMN wanted bigint NOT NULL DEFAULT 0;

UPDATE version SET schema = 45, min_program = 45;
