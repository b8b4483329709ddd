-- What a create writes, less of it still: a look-up of the image for each volume, and entries in two indexes.
--
-- An image's row stays when the image is removed, so that no volume can name one that was never there.
-- No query looks for a NIC by its number, which a sequence gives once.
-- Instances that are being made have no place among all names of their profile: they are found by their state.

-- +goose Up
ALTER TABLE volume DROP CONSTRAINT volume_image_fkey;
ALTER TABLE nic DROP CONSTRAINT nic_pkey, DROP CONSTRAINT nic_instance_idx_key, ADD PRIMARY KEY (instance, idx);
DROP INDEX instance_profile;
CREATE INDEX instance_profile ON instance (profile, name, state) WHERE state <> 'provisioning';

UPDATE version SET schema = 17;
