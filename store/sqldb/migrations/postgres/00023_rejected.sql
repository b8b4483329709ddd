-- Webhooks whose sender was not accepted, counted by hook, sender and reason.

-- +goose Up
CREATE TABLE delivery_rejected (
  hook text COLLATE "C" NOT NULL,
  peer text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  times bigint NOT NULL,
  first_at bigint NOT NULL,
  last_at bigint NOT NULL,
  PRIMARY KEY (hook, peer, reason)
);

UPDATE version SET schema = 23;
