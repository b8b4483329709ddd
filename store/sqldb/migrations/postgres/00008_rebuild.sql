-- What rebuild jobs make of their instances, and what those were before. A row
-- goes with the end of its job.

-- +goose Up
CREATE TABLE rebuild (
    job text COLLATE "C" NOT NULL REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    side text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL, -- JSON, without the columns that follow
    user_data bytea,
    vendor_data bytea,
    report_token text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, side)
);

UPDATE version SET schema = 8;
