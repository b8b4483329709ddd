-- People who have signed in: their sessions, and the sign-ins that are under way, each by a digest of its
-- secret.

-- +goose Up
CREATE TABLE session (
  id text COLLATE "C" PRIMARY KEY,
  sha256 bytea NOT NULL UNIQUE,
  issuer text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  member_of text COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  expires bigint NOT NULL,
  used bigint NOT NULL DEFAULT 0,
  peer text COLLATE "C" NOT NULL
);
CREATE INDEX session_expires ON session (expires);
CREATE TABLE sign_in (
  id bytea PRIMARY KEY,
  data bytea NOT NULL,
  expires bigint NOT NULL
);
CREATE INDEX sign_in_expires ON sign_in (expires);

UPDATE version SET schema = 30;
