-- Profiles that declare params, hold expressions and use templates, one space of
-- names for both kinds of profile, user-data that follows its profile, what
-- instances have of a system template, and quotas of tokens.

-- +goose Up

-- A profile need not name an image or a network any more.
PRAGMA defer_foreign_keys = ON;
CREATE TABLE profile_before AS SELECT * FROM profile;
DROP TABLE profile;
CREATE TABLE profile (
    name           text    NOT NULL PRIMARY KEY,
    image          text    REFERENCES image (name),
    vcpus          integer NOT NULL,
    memory         integer NOT NULL,
    disk_size      integer NOT NULL,
    network        text    REFERENCES network (name),
    ssh_keys       text    NOT NULL,
    user_data      blob,
    ready          text    NOT NULL,
    revision       integer NOT NULL,
    created        integer NOT NULL,
    changed        integer NOT NULL,
    vendor_data    blob,
    vendor_in_user integer NOT NULL DEFAULT 0,
    datasource     text    NOT NULL DEFAULT 'ec2',
    metadata       text    NOT NULL DEFAULT '{}',
    tags           text    NOT NULL DEFAULT '{}',
    on_failure     text    NOT NULL DEFAULT '',
    params         text    NOT NULL DEFAULT 'null',
    expressions    text    NOT NULL DEFAULT '{}',
    system         text    REFERENCES system_template (name),
    network_template text  REFERENCES network_template (name),
    storage        text    REFERENCES storage_template (name),
    document       text    REFERENCES userdata (name),
    follow         text    NOT NULL DEFAULT 'pinned',
    protected      integer NOT NULL DEFAULT 0,
    hold           integer NOT NULL DEFAULT 0
) STRICT;
INSERT INTO profile (name, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, revision, created, changed,
    vendor_data, vendor_in_user, datasource, metadata, tags, on_failure)
  SELECT name, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, revision, created, changed,
    vendor_data, vendor_in_user, datasource, metadata, tags, on_failure FROM profile_before;
DROP TABLE profile_before;
CREATE INDEX profile_image ON profile (image);
CREATE INDEX profile_system ON profile (system) WHERE system IS NOT NULL;
CREATE INDEX profile_network_template ON profile (network_template) WHERE network_template IS NOT NULL;
CREATE INDEX profile_storage ON profile (storage) WHERE storage IS NOT NULL;
CREATE INDEX profile_document ON profile (document) WHERE document IS NOT NULL;

ALTER TABLE provisioner_profile ADD COLUMN params text NOT NULL DEFAULT 'null';
ALTER TABLE provisioner_profile ADD COLUMN follow text NOT NULL DEFAULT 'live';
ALTER TABLE provisioner_profile ADD COLUMN protected integer NOT NULL DEFAULT 0;
ALTER TABLE provisioner_profile ADD COLUMN hold integer NOT NULL DEFAULT 0;

-- The names of both kinds of profile. Of two that had one name before, the
-- native one has it.
CREATE TABLE profile_name (
    name text NOT NULL PRIMARY KEY,
    kind text NOT NULL
) STRICT;
INSERT INTO profile_name (name, kind) SELECT name, 'native' FROM profile;
INSERT INTO profile_name (name, kind) SELECT name, 'provisioner' FROM provisioner_profile WHERE name NOT IN (SELECT name FROM profile);
-- +goose StatementBegin
CREATE TRIGGER profile_named AFTER INSERT ON profile BEGIN
    INSERT INTO profile_name (name, kind) VALUES (NEW.name, 'native');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER provisioner_profile_named AFTER INSERT ON provisioner_profile BEGIN
    INSERT INTO profile_name (name, kind) VALUES (NEW.name, 'provisioner');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER profile_unnamed AFTER DELETE ON profile BEGIN
    DELETE FROM profile_name WHERE name = OLD.name AND kind = 'native';
    INSERT INTO profile_name (name, kind) SELECT name, 'provisioner' FROM provisioner_profile WHERE name = OLD.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER provisioner_profile_unnamed AFTER DELETE ON provisioner_profile BEGIN
    DELETE FROM profile_name WHERE name = OLD.name AND kind = 'provisioner';
END;
-- +goose StatementEnd

ALTER TABLE instance ADD COLUMN protected integer NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN kind text NOT NULL DEFAULT 'native'; -- of its profile
ALTER TABLE instance ADD COLUMN follow text NOT NULL DEFAULT 'pinned';
ALTER TABLE instance ADD COLUMN source text NOT NULL DEFAULT ''; -- the revisions that its user-data was made from
ALTER TABLE instance ADD COLUMN params text NOT NULL DEFAULT 'null'; -- may be secret
ALTER TABLE instance ADD COLUMN system text NOT NULL DEFAULT '{"serial":true,"vnc":false,"autostart":false}';
ALTER TABLE instance ADD COLUMN token text NOT NULL DEFAULT ''; -- by which it was made
UPDATE instance SET kind = 'provisioner' WHERE id IN (SELECT instance FROM job WHERE kind = 'create' AND spec IS NOT NULL);
CREATE INDEX instance_token ON instance (token, vcpus, memory) WHERE token <> '';
CREATE INDEX instance_live ON instance (kind, profile, source, state, id) WHERE follow = 'live';

ALTER TABLE rebuild ADD COLUMN source text NOT NULL DEFAULT '';
ALTER TABLE rebuild ADD COLUMN params text NOT NULL DEFAULT 'null';

ALTER TABLE token ADD COLUMN max_instances integer NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN max_vcpus integer NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN max_memory integer NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN max_disk integer NOT NULL DEFAULT 0;

UPDATE version SET schema = 11;
