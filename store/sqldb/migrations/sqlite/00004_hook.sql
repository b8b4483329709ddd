-- Hooks of several schemes and keys, and the history of what they received. The
-- release before goes on working on this schema: it sees each hook's key as it
-- was, and for a hook of a scheme that it does not know one that nobody has.

-- +goose Up
ALTER TABLE hook ADD COLUMN settings text    NOT NULL DEFAULT '{}';
ALTER TABLE hook ADD COLUMN declared integer NOT NULL DEFAULT 0;
ALTER TABLE hook ADD COLUMN changed  integer;

CREATE TABLE hook_key (
    hook       text    NOT NULL REFERENCES hook (name) ON DELETE CASCADE,
    id         text    NOT NULL,
    idx        integer NOT NULL,
    secret     blob    NOT NULL,
    not_before integer,
    not_after  integer,
    PRIMARY KEY (hook, id)
) STRICT;
INSERT INTO hook_key (hook, id, idx, secret) SELECT name, 'k1', 0, key FROM hook;

ALTER TABLE delivery ADD COLUMN peer    text NOT NULL DEFAULT '';
ALTER TABLE delivery ADD COLUMN headers text NOT NULL DEFAULT '{}';
ALTER TABLE delivery ADD COLUMN payload blob;
CREATE INDEX delivery_hook ON delivery (hook, received);

-- What was verified and led to no job. Its id is not used up.
CREATE TABLE delivery_other (
    hook     text    NOT NULL,
    id       text    NOT NULL,
    sha256   blob    NOT NULL,
    received integer NOT NULL,
    decision text    NOT NULL,
    detail   text    NOT NULL,
    peer     text    NOT NULL,
    headers  text    NOT NULL,
    payload  blob,
    PRIMARY KEY (hook, id)
) STRICT;
CREATE INDEX delivery_other_received ON delivery_other (received);

-- Which hook an instance is of.
CREATE TABLE hook_instance (
    instance text    NOT NULL PRIMARY KEY REFERENCES instance (id) ON DELETE CASCADE,
    hook     text    NOT NULL,
    made     integer NOT NULL
) STRICT;
CREATE INDEX hook_instance_hook ON hook_instance (hook, made);

-- What was made before.
INSERT INTO hook_instance (instance, hook, made)
    SELECT instance.id, delivery.hook, delivery.received FROM delivery
    JOIN job ON job.id = delivery.job AND job.kind = 'create' JOIN instance ON instance.id = job.instance;

UPDATE version SET schema = 4;
