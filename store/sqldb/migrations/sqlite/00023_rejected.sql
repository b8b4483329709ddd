-- Webhooks whose sender was not accepted, counted by hook, sender and reason.

-- +goose Up
CREATE TABLE delivery_rejected (
  hook text NOT NULL,
  peer text NOT NULL,
  reason text NOT NULL,
  times integer NOT NULL,
  first_at integer NOT NULL,
  last_at integer NOT NULL,
  PRIMARY KEY (hook, peer, reason)
) STRICT;

UPDATE version SET schema = 23;
