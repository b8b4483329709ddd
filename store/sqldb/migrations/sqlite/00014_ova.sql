-- OVA images, whose disks are images; and what starts a machine.

-- +goose Up
ALTER TABLE image ADD COLUMN firmware text NOT NULL DEFAULT '';

CREATE TABLE ova (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    name     text    NOT NULL UNIQUE,
    state    text    NOT NULL,
    job      text    NOT NULL, -- that made its images
    revision integer NOT NULL,
    created  integer NOT NULL,
    changed  integer NOT NULL
) STRICT;

CREATE TABLE ova_volume (
    ova    text    NOT NULL REFERENCES ova (name) ON DELETE CASCADE,
    idx    integer NOT NULL,
    disk   text    NOT NULL,
    pool   text    NOT NULL,
    image  text    NOT NULL UNIQUE REFERENCES image (name),
    file   text    NOT NULL,
    format text    NOT NULL,
    size   integer NOT NULL,
    PRIMARY KEY (ova, idx)
) STRICT;

ALTER TABLE system_template ADD COLUMN ova text REFERENCES ova (name);
ALTER TABLE provisioner_profile ADD COLUMN ova text REFERENCES ova (name);
CREATE INDEX system_template_ova ON system_template (ova) WHERE ova IS NOT NULL;
CREATE INDEX provisioner_profile_ova ON provisioner_profile (ova) WHERE ova IS NOT NULL;

UPDATE version SET schema = 14;
