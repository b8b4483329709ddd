-- How the disks of machines are attached and made. The release before attaches all by virtio, and clones.

-- +goose Up
ALTER TABLE system_template ADD COLUMN disk_bus text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE system_template ADD COLUMN disk_copy bigint NOT NULL DEFAULT 0;

UPDATE version SET schema = 20;
