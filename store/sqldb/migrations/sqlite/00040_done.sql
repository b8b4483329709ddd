-- Deliveries that were carried out without a job have an empty one, and say what was done.

-- +goose Up
CREATE TABLE delivery_after (
    hook     text    NOT NULL,
    id       text    NOT NULL,
    sha256   blob    NOT NULL,
    received integer NOT NULL,
    job      text    NOT NULL, -- empty: carried out without one
    peer     text    NOT NULL DEFAULT '',
    headers  text    NOT NULL DEFAULT '{}',
    payload  blob,
    detail   text    NOT NULL DEFAULT '',
    PRIMARY KEY (hook, id)
) STRICT;
INSERT INTO delivery_after (hook, id, sha256, received, job, peer, headers, payload)
  SELECT hook, id, sha256, received, job, peer, headers, payload FROM delivery;
DROP TABLE delivery;
ALTER TABLE delivery_after RENAME TO delivery;
CREATE INDEX delivery_received ON delivery (received);
CREATE INDEX delivery_hook ON delivery (hook, received);

UPDATE version SET schema = 40;
