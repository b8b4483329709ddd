-- Requests with an idempotency key, by a digest of caller and key, with their answers.

-- +goose Up
CREATE TABLE keyed_request (
  id bytea PRIMARY KEY,
  digest bytea NOT NULL,
  run text COLLATE "C" NOT NULL,
  changed bigint NOT NULL,
  answer bytea,
  at bigint NOT NULL
);
CREATE INDEX keyed_request_at ON keyed_request (at);

UPDATE version SET schema = 24;
