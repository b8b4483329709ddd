-- What rebuild jobs make of their instances, and what those were before. A row
-- goes with the end of its job.

-- +goose Up
CREATE TABLE rebuild (
    job          text NOT NULL REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    side         text NOT NULL,
    instance     text NOT NULL, -- JSON, without the columns that follow
    user_data    blob,
    vendor_data  blob,
    report_token text NOT NULL,
    PRIMARY KEY (job, side)
) STRICT;

UPDATE version SET schema = 8;
