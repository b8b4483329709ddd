-- Profiles that declare params, hold expressions and use templates, one space of
-- names for both kinds of profile, user-data that follows its profile, what
-- instances have of a system template, and quotas of tokens.

-- +goose Up

-- A profile need not name an image or a network any more.
ALTER TABLE profile
    ALTER COLUMN image DROP NOT NULL,
    ALTER COLUMN network DROP NOT NULL,
    ADD COLUMN params text COLLATE "C" NOT NULL DEFAULT 'null',
    ADD COLUMN expressions text COLLATE "C" NOT NULL DEFAULT '{}',
    ADD COLUMN system text COLLATE "C" REFERENCES system_template (name),
    ADD COLUMN network_template text COLLATE "C" REFERENCES network_template (name),
    ADD COLUMN storage text COLLATE "C" REFERENCES storage_template (name),
    ADD COLUMN document text COLLATE "C" REFERENCES userdata (name),
    ADD COLUMN follow text COLLATE "C" NOT NULL DEFAULT 'pinned',
    ADD COLUMN protected bigint NOT NULL DEFAULT 0,
    ADD COLUMN hold bigint NOT NULL DEFAULT 0;
CREATE INDEX profile_system ON profile (system) WHERE system IS NOT NULL;
CREATE INDEX profile_network_template ON profile (network_template) WHERE network_template IS NOT NULL;
CREATE INDEX profile_storage ON profile (storage) WHERE storage IS NOT NULL;
CREATE INDEX profile_document ON profile (document) WHERE document IS NOT NULL;

ALTER TABLE provisioner_profile
    ADD COLUMN params text COLLATE "C" NOT NULL DEFAULT 'null',
    ADD COLUMN follow text COLLATE "C" NOT NULL DEFAULT 'live',
    ADD COLUMN protected bigint NOT NULL DEFAULT 0,
    ADD COLUMN hold bigint NOT NULL DEFAULT 0;

-- The names of both kinds of profile. Of two that had one name before, the
-- native one has it.
CREATE TABLE profile_name (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    kind text COLLATE "C" NOT NULL
);
INSERT INTO profile_name (name, kind) SELECT name, 'native' FROM profile;
INSERT INTO profile_name (name, kind) SELECT name, 'provisioner' FROM provisioner_profile WHERE name NOT IN (SELECT name FROM profile);
-- +goose StatementBegin
CREATE FUNCTION profile_named() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO profile_name (name, kind) VALUES (NEW.name, TG_ARGV[0]);
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION profile_unnamed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM profile_name WHERE name = OLD.name AND kind = TG_ARGV[0];
    IF TG_ARGV[0] = 'native' THEN
        INSERT INTO profile_name (name, kind) SELECT name, 'provisioner' FROM provisioner_profile WHERE name = OLD.name;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER profile_named AFTER INSERT ON profile FOR EACH ROW EXECUTE FUNCTION profile_named('native');
CREATE TRIGGER provisioner_profile_named AFTER INSERT ON provisioner_profile FOR EACH ROW EXECUTE FUNCTION profile_named('provisioner');
CREATE TRIGGER profile_unnamed AFTER DELETE ON profile FOR EACH ROW EXECUTE FUNCTION profile_unnamed('native');
CREATE TRIGGER provisioner_profile_unnamed AFTER DELETE ON provisioner_profile FOR EACH ROW EXECUTE FUNCTION profile_unnamed('provisioner');

ALTER TABLE instance
    ADD COLUMN protected bigint NOT NULL DEFAULT 0,
    ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'native', -- of its profile
    ADD COLUMN follow text COLLATE "C" NOT NULL DEFAULT 'pinned',
    ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '', -- the revisions that its user-data was made from
    ADD COLUMN params text COLLATE "C" NOT NULL DEFAULT 'null', -- may be secret
    ADD COLUMN system text COLLATE "C" NOT NULL DEFAULT '{"serial":true,"vnc":false,"autostart":false}',
    ADD COLUMN token text COLLATE "C" NOT NULL DEFAULT ''; -- by which it was made
UPDATE instance SET kind = 'provisioner' WHERE id IN (SELECT instance FROM job WHERE kind = 'create' AND spec IS NOT NULL);
CREATE INDEX instance_token ON instance (token, vcpus, memory) WHERE token <> '';
CREATE INDEX instance_live ON instance (kind, profile, source, state, id) WHERE follow = 'live';

ALTER TABLE rebuild
    ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN params text COLLATE "C" NOT NULL DEFAULT 'null';

ALTER TABLE token
    ADD COLUMN max_instances bigint NOT NULL DEFAULT 0,
    ADD COLUMN max_vcpus bigint NOT NULL DEFAULT 0,
    ADD COLUMN max_memory bigint NOT NULL DEFAULT 0,
    ADD COLUMN max_disk bigint NOT NULL DEFAULT 0;

UPDATE version SET schema = 11;
