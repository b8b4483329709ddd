-- How the disks of machines are attached and made. The release before attaches all by virtio, and clones.

-- +goose Up
ALTER TABLE system_template ADD COLUMN disk_bus text NOT NULL DEFAULT '';
ALTER TABLE system_template ADD COLUMN disk_copy integer NOT NULL DEFAULT 0;

UPDATE version SET schema = 20;
