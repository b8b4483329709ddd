-- How jobs are run: in which order, after what, how many at a time, and what
-- becomes of one that fails. And what their commands put out.

-- +goose Up
ALTER TABLE job ADD COLUMN pool text NOT NULL DEFAULT ''; -- whose jobs are counted together; empty for none
ALTER TABLE job ADD COLUMN priority integer NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN on_failure text NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN after text NOT NULL DEFAULT ''; -- the job that must have succeeded before
ALTER TABLE job ADD COLUMN blocked integer NOT NULL DEFAULT 0; -- that one has not ended yet
ALTER TABLE job ADD COLUMN outputs integer NOT NULL DEFAULT 0; -- the last line's n
DROP INDEX job_live;
CREATE INDEX job_live ON job (blocked, priority DESC, created, id) WHERE state IN ('queued', 'running', 'undoing');
CREATE INDEX job_held ON job (node, pool) WHERE owner <> '';
CREATE INDEX job_after ON job (after) WHERE blocked = 1;

ALTER TABLE job_event ADD COLUMN bytes_done integer NOT NULL DEFAULT 0;
ALTER TABLE job_event ADD COLUMN bytes_total integer NOT NULL DEFAULT 0;

ALTER TABLE job_stage ADD COLUMN output integer NOT NULL DEFAULT 0; -- how much of it is kept
ALTER TABLE job_stage ADD COLUMN note integer NOT NULL DEFAULT 0; -- the line that stands for what was dropped; 0 while nothing was
ALTER TABLE job_stage ADD COLUMN dropped_lines integer NOT NULL DEFAULT 0;
ALTER TABLE job_stage ADD COLUMN dropped_bytes integer NOT NULL DEFAULT 0;

CREATE TABLE job_output (
    job text NOT NULL REFERENCES job (id),
    n integer NOT NULL,
    at integer NOT NULL,
    stage text NOT NULL,
    stream text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (job, n)
) STRICT;

ALTER TABLE profile ADD COLUMN on_failure text NOT NULL DEFAULT '';

UPDATE version SET schema = 10;
