-- What a create writes, less of it still: a look-up of the image for each volume, and entries in an index.
--
-- An image's row stays when the image is removed, so that no volume can name one that was never there.
-- Instances that are being made have no place among all names of their profile: they are found by their state.

-- +goose Up
DROP TRIGGER instance_parts;
CREATE TABLE volume_after (
    pool     text    NOT NULL,
    name     text    NOT NULL,
    instance text    NOT NULL,
    idx      integer NOT NULL,
    size     integer NOT NULL,
    image    text,
    PRIMARY KEY (pool, name),
    UNIQUE (instance, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO volume_after (pool, name, instance, idx, size, image) SELECT pool, name, instance, idx, size, image FROM volume;
DROP TABLE volume;
ALTER TABLE volume_after RENAME TO volume;
CREATE INDEX volume_image ON volume (image);
-- +goose StatementBegin
CREATE TRIGGER instance_parts AFTER DELETE ON instance BEGIN
    DELETE FROM nic WHERE instance = OLD.id;
    DELETE FROM volume WHERE instance = OLD.id;
END;
-- +goose StatementEnd

DROP INDEX instance_profile;
CREATE INDEX instance_profile ON instance (profile, name, state) WHERE state <> 'provisioning';

UPDATE version SET schema = 17;
