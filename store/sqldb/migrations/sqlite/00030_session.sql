-- People who have signed in: their sessions, and the sign-ins that are under way, each by a digest of its
-- secret.

-- +goose Up
CREATE TABLE session (
  id text PRIMARY KEY,
  sha256 blob NOT NULL UNIQUE,
  issuer text NOT NULL,
  subject text NOT NULL,
  name text NOT NULL,
  member_of text NOT NULL,
  created integer NOT NULL,
  expires integer NOT NULL,
  used integer NOT NULL DEFAULT 0,
  peer text NOT NULL
) STRICT;
CREATE INDEX session_expires ON session (expires);
CREATE TABLE sign_in (
  id blob PRIMARY KEY,
  data blob NOT NULL,
  expires integer NOT NULL
) STRICT;
CREATE INDEX sign_in_expires ON sign_in (expires);

UPDATE version SET schema = 30;
