-- The ISO image in the CD-ROM drive of an instance, and what of its hardware its guest gets only when it is started again: a JSON array.

-- +goose Up
ALTER TABLE instance ADD COLUMN cdrom text REFERENCES image (name);
ALTER TABLE instance ADD COLUMN pending text NOT NULL DEFAULT '[]';
CREATE INDEX instance_cdrom ON instance (cdrom) WHERE cdrom IS NOT NULL;

UPDATE version SET schema = 52, min_program = 52;
