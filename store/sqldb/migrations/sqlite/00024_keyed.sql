-- Requests with an idempotency key, by a digest of caller and key, with their answers.

-- +goose Up
CREATE TABLE keyed_request (
  id blob PRIMARY KEY,
  digest blob NOT NULL,
  run text NOT NULL,
  changed integer NOT NULL,
  answer blob,
  at integer NOT NULL
) STRICT;
CREATE INDEX keyed_request_at ON keyed_request (at);

UPDATE version SET schema = 24;
