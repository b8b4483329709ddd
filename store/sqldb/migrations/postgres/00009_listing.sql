-- What lists are filtered by. A column at the end of an index answers a second
-- filter without the row. Most jobs are creates and most have succeeded: those
-- are found by age, and cost no index.

-- +goose Up
CREATE INDEX instance_state ON instance (state, name, profile);
CREATE INDEX instance_profile ON instance (profile, name, state);
CREATE INDEX job_unsuccessful ON job (state, created, id, kind) WHERE state <> 'succeeded';
CREATE INDEX job_kind ON job (kind, created, id, state) WHERE kind <> 'create';

UPDATE version SET schema = 9;
