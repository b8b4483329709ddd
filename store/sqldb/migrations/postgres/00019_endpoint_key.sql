-- Keys of endpoints that sign otherwise than by HMAC. The release before takes each
-- for an HMAC key: what it signs with one of them verifies nowhere, and tells nothing.

-- +goose Up
ALTER TABLE endpoint_key ADD COLUMN version    text COLLATE "C" NOT NULL DEFAULT 'v1';
ALTER TABLE endpoint_key ADD COLUMN public_key text COLLATE "C" NOT NULL DEFAULT ''; -- what verifies, where that is another key

UPDATE version SET schema = 19;
