-- What a create writes, less of it. An instance claims its ID and name, MACs and
-- addresses by the unique keys of its own rows, so that claims are left to images.
-- Which hook it is of stands in its row.
--
-- A foreign key is checked for each row, which was a quarter of what a create
-- cost the server. These hold nothing that could be otherwise: jobs and networks
-- are never deleted, and the rows of an instance and the first of a job are
-- written with it, in one transaction. Those of an instance go with it by a trigger.
--
-- A program of the release before would look for names and addresses among the
-- claims, and must not go on.

-- +goose Up
DELETE FROM claim WHERE kind <> 'image';

ALTER TABLE instance ADD COLUMN hook text COLLATE "C" NOT NULL DEFAULT ''; -- by which it was made
UPDATE instance SET hook = hook_instance.hook FROM hook_instance WHERE hook_instance.instance = instance.id;
DROP TABLE hook_instance;
CREATE INDEX instance_hook ON instance (hook) WHERE hook <> '';

-- Most instances are being made only for a while: they then have no place among
-- all names of their state, which is another page for each, but one in the order
-- in which they are made.
DROP INDEX instance_state;
CREATE INDEX instance_state ON instance (state, name, profile) WHERE state <> 'provisioning';
CREATE INDEX instance_making ON instance (state, id) WHERE state = 'provisioning';
-- Jobs that have not ended are found by job_live.
DROP INDEX job_unsuccessful;
CREATE INDEX job_unsuccessful ON job (state, created, id, kind) WHERE state IN ('failed', 'rolled_back', 'rollback_incomplete');

ALTER TABLE nic DROP CONSTRAINT nic_instance_fkey, DROP CONSTRAINT nic_network_fkey;
ALTER TABLE volume DROP CONSTRAINT volume_instance_fkey;
ALTER TABLE job_event DROP CONSTRAINT job_event_job_fkey;
ALTER TABLE delivery DROP CONSTRAINT delivery_job_fkey;

-- +goose StatementBegin
CREATE FUNCTION instance_parts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM nic WHERE instance = OLD.id;
    DELETE FROM volume WHERE instance = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER instance_parts AFTER DELETE ON instance FOR EACH ROW EXECUTE FUNCTION instance_parts();

UPDATE version SET schema = 16, min_program = 16;
