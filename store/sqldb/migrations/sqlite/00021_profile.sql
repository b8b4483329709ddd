-- One kind of profile. A provisioner profile becomes a profile with a script. The release before does not know it.

-- +goose Up

-- Of two profiles of one name, which a release before schema 11 allowed, the one without a script keeps it.
CREATE TABLE twin AS
  SELECT p.name AS name, substr(p.name, 1, 48) || '-pvc' || CAST(p.id AS text) AS next
    FROM provisioner_profile p JOIN profile n ON n.name = p.name;
UPDATE instance SET profile = (SELECT next FROM twin WHERE twin.name = instance.profile)
  WHERE kind = 'provisioner' AND profile IN (SELECT name FROM twin);
UPDATE rebuild SET instance = json_set(instance, '$.profile', (SELECT next FROM twin WHERE twin.name = json_extract(rebuild.instance, '$.profile')))
  WHERE json_extract(instance, '$.profile_kind') = 'provisioner' AND json_extract(instance, '$.profile') IN (SELECT name FROM twin);
UPDATE provisioner_profile SET name = (SELECT next FROM twin WHERE twin.name = provisioner_profile.name)
  WHERE name IN (SELECT name FROM twin);
DROP TABLE twin;

-- An instance does not follow a profile of its profile's name that it was not made from.
UPDATE instance SET follow = 'pinned' WHERE follow = 'live' AND (
  kind = 'native' AND profile IN (SELECT name FROM provisioner_profile) OR
  kind = 'provisioner' AND profile IN (SELECT name FROM profile));

CREATE TABLE profile_before AS SELECT * FROM profile;
DROP TABLE profile;
CREATE TABLE profile (
    name           text    NOT NULL UNIQUE,
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
    hold           integer NOT NULL DEFAULT 0,
    id             integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    script         text    REFERENCES script (name),
    arguments      text    NOT NULL DEFAULT '[]', -- of the script
    ova            text    REFERENCES ova (name)
) STRICT;
-- PVC's guests find their UUID, and an empty document where there is none; a job ends once the domain is started.
INSERT INTO profile (id, name, vcpus, memory, disk_size, ssh_keys, user_data, ready, revision, created, changed, metadata,
    params, system, network_template, storage, document, follow, protected, hold, script, arguments, ova)
  SELECT id, name, 0, 0, 0, '[]', x'', 'started', revision, created, changed, '{"instance_id":"uuid"}',
    params, system, network, storage, userdata, follow, protected, hold, script, arguments, ova FROM provisioner_profile;
DELETE FROM sqlite_sequence WHERE name = 'profile';
INSERT INTO sqlite_sequence (name, seq) SELECT 'profile', seq FROM sqlite_sequence WHERE name = 'provisioner_profile';
INSERT INTO profile (name, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, revision, created, changed,
    vendor_data, vendor_in_user, datasource, metadata, tags, on_failure, params, expressions, system, network_template, storage, document,
    follow, protected, hold)
  SELECT name, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, revision, created, changed,
    vendor_data, vendor_in_user, datasource, metadata, tags, on_failure, params, expressions, system, network_template, storage, document,
    follow, protected, hold FROM profile_before ORDER BY created, name;
DROP TABLE profile_before;
DROP TABLE provisioner_profile;
DROP TABLE profile_name;
CREATE INDEX profile_image ON profile (image);
CREATE INDEX profile_system ON profile (system) WHERE system IS NOT NULL;
CREATE INDEX profile_network_template ON profile (network_template) WHERE network_template IS NOT NULL;
CREATE INDEX profile_storage ON profile (storage) WHERE storage IS NOT NULL;
CREATE INDEX profile_document ON profile (document) WHERE document IS NOT NULL;
CREATE INDEX profile_script ON profile (script) WHERE script IS NOT NULL;
CREATE INDEX profile_ova ON profile (ova) WHERE ova IS NOT NULL;

DROP INDEX instance_live;
ALTER TABLE instance DROP COLUMN kind;
CREATE INDEX instance_live ON instance (profile, source, state, id) WHERE follow = 'live';

UPDATE version SET schema = 21, min_program = 21;
