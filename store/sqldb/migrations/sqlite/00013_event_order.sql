-- The events of all jobs in one order, for those who follow them all. An event
-- gets its place after it was committed, from whoever reads: so no place becomes
-- visible before a lower one, and no writer waits for another.

-- +goose Up
ALTER TABLE job_event ADD COLUMN place integer;
CREATE INDEX job_event_unplaced ON job_event (at, job, seq) WHERE place IS NULL;
CREATE INDEX job_event_place ON job_event (place) WHERE place IS NOT NULL;

-- One row at most: the last place that was given.
CREATE TABLE event_order (
    one  integer NOT NULL PRIMARY KEY CHECK (one = 1),
    last integer NOT NULL
) STRICT;

UPDATE version SET schema = 13;
