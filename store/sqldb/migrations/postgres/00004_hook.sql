-- Hooks of several schemes and keys, and the history of what they received. The
-- release before goes on working on this schema: it sees each hook's key as it
-- was, and for a hook of a scheme that it does not know one that nobody has.

-- +goose Up
ALTER TABLE hook ADD COLUMN settings text COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE hook ADD COLUMN declared bigint NOT NULL DEFAULT 0;
ALTER TABLE hook ADD COLUMN changed bigint;

CREATE TABLE hook_key (
    hook text COLLATE "C" NOT NULL REFERENCES hook (name) ON DELETE CASCADE,
    id text COLLATE "C" NOT NULL,
    idx bigint NOT NULL,
    secret bytea NOT NULL,
    not_before bigint,
    not_after bigint,
    PRIMARY KEY (hook, id)
);
INSERT INTO hook_key (hook, id, idx, secret) SELECT name, 'k1', 0, key FROM hook;

ALTER TABLE delivery ADD COLUMN peer text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE delivery ADD COLUMN headers text COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE delivery ADD COLUMN payload bytea;
CREATE INDEX delivery_hook ON delivery (hook, received);

-- What was verified and led to no job. Its id is not used up.
CREATE TABLE delivery_other (
    hook text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    sha256 bytea NOT NULL,
    received bigint NOT NULL,
    decision text COLLATE "C" NOT NULL,
    detail text COLLATE "C" NOT NULL,
    peer text COLLATE "C" NOT NULL,
    headers text COLLATE "C" NOT NULL,
    payload bytea,
    PRIMARY KEY (hook, id)
);
CREATE INDEX delivery_other_received ON delivery_other (received);

-- Which hook an instance is of.
CREATE TABLE hook_instance (
    instance text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES instance (id) ON DELETE CASCADE,
    hook text COLLATE "C" NOT NULL,
    made bigint NOT NULL
);
CREATE INDEX hook_instance_hook ON hook_instance (hook, made);

-- What was made before.
INSERT INTO hook_instance (instance, hook, made)
    SELECT instance.id, delivery.hook, delivery.received FROM delivery
    JOIN job ON job.id = delivery.job AND job.kind = 'create' JOIN instance ON instance.id = job.instance;

UPDATE version SET schema = 4;
