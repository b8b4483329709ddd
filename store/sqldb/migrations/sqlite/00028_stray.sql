-- What carries Seedbed's tag but is not known belongs to the project in the tag.

-- +goose Up
ALTER TABLE stray ADD COLUMN project text NOT NULL DEFAULT ''; -- empty if the tag has none

UPDATE version SET schema = 28;
