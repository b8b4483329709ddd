-- What kind of network one is, and its settings (seedbed.NetworkOptions). Until now a network without NAT let
-- nothing out.

-- +goose Up
ALTER TABLE network ADD COLUMN kind text NOT NULL DEFAULT 'nat';
ALTER TABLE network ADD COLUMN options text NOT NULL DEFAULT '{}';
UPDATE network SET kind = 'isolated' WHERE nat = 0;

UPDATE version SET schema = 32, min_program = 32;
