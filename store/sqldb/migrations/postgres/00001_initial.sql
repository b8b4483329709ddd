-- Times are unix microseconds, booleans 0 or 1, lists and records JSON text.

-- +goose Up
CREATE TABLE version (
    one bigint NOT NULL PRIMARY KEY CHECK (one = 1),
    schema bigint NOT NULL, -- the last migration that was applied
    min_program bigint NOT NULL  -- the least schema that a program must know to work on this database
);
INSERT INTO version (one, schema, min_program) VALUES (1, 1, 1);

CREATE TABLE setting (
    key text COLLATE "C" NOT NULL PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE network (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    bridge text COLLATE "C" NOT NULL UNIQUE,
    mac text COLLATE "C" NOT NULL,
    prefix text COLLATE "C" NOT NULL,
    gateway text COLLATE "C" NOT NULL,
    dns text COLLATE "C" NOT NULL,
    nat bigint NOT NULL,
    dhcp bigint NOT NULL
);

-- A dropped image exists no more, but a profile or volume still names it.
CREATE TABLE image (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    pool text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    source text COLLATE "C" NOT NULL,
    format text COLLATE "C" NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    dropped bigint NOT NULL DEFAULT 0
);

CREATE TABLE profile (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    image text COLLATE "C" NOT NULL REFERENCES image (name),
    vcpus bigint NOT NULL,
    memory bigint NOT NULL,
    disk_size bigint NOT NULL,
    network text COLLATE "C" NOT NULL REFERENCES network (name),
    ssh_keys text COLLATE "C" NOT NULL,
    user_data bytea,
    ready text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL
);
CREATE INDEX profile_image ON profile (image);

CREATE TABLE hook (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    key bytea NOT NULL,
    actions text COLLATE "C" NOT NULL,
    tolerance bigint NOT NULL, -- microseconds
    created bigint NOT NULL
);

CREATE TABLE hook_profile (
    hook text COLLATE "C" NOT NULL REFERENCES hook (name) ON DELETE CASCADE,
    idx bigint NOT NULL,
    profile text COLLATE "C" NOT NULL REFERENCES profile (name),
    PRIMARY KEY (hook, profile)
);
CREATE INDEX hook_profile_profile ON hook_profile (profile);

CREATE TABLE job (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    spec text COLLATE "C",
    node text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,
    lease_until bigint,
    stage text COLLATE "C" NOT NULL DEFAULT '',
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    progress bigint NOT NULL DEFAULT 0,
    attempts bigint NOT NULL DEFAULT 0,
    error text COLLATE "C" NOT NULL DEFAULT '',
    cancel bigint NOT NULL DEFAULT 0,
    events bigint NOT NULL DEFAULT 0, -- the last event's seq
    created bigint NOT NULL,
    started bigint,
    ended bigint
);
CREATE INDEX job_live ON job (created, id) WHERE state IN ('queued', 'running', 'undoing');
CREATE INDEX job_created ON job (created, id);
CREATE INDEX job_instance ON job (instance);

CREATE TABLE job_stage (
    job text COLLATE "C" NOT NULL REFERENCES job (id),
    n bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    error text COLLATE "C" NOT NULL DEFAULT '',
    started bigint NOT NULL,
    ended bigint,
    PRIMARY KEY (job, n),
    UNIQUE (job, name)
);

CREATE TABLE job_event (
    job text COLLATE "C" NOT NULL REFERENCES job (id),
    seq bigint NOT NULL,
    at bigint NOT NULL,
    level text COLLATE "C" NOT NULL,
    stage text COLLATE "C" NOT NULL,
    msg text COLLATE "C" NOT NULL,
    progress bigint NOT NULL,
    PRIMARY KEY (job, seq)
);

-- At most one live holder for each (kind, key). The holder is an instance's ID
-- or an image's name; the job is the one that made the claim.
CREATE TABLE claim (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    holder text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX claim_holder ON claim (holder);

CREATE TABLE delivery (
    hook text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    sha256 bytea NOT NULL,
    received bigint NOT NULL,
    job text COLLATE "C" NOT NULL REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (hook, id)
);
CREATE INDEX delivery_received ON delivery (received);

CREATE TABLE instance (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    profile text COLLATE "C" NOT NULL,
    image text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    vcpus bigint NOT NULL,
    memory bigint NOT NULL,
    ready text COLLATE "C" NOT NULL,
    held bigint NOT NULL,
    user_data bytea,
    ssh_keys text COLLATE "C" NOT NULL,
    report_token text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL,
    fetched bigint,
    reported bigint,
    gone_since bigint
);

-- A sequence: a NIC's number is never given again.
CREATE TABLE nic (
    id bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY CHECK (id <= 2147483647),
    instance text COLLATE "C" NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    idx bigint NOT NULL,
    mac text COLLATE "C" NOT NULL UNIQUE,
    network text COLLATE "C" NOT NULL REFERENCES network (name),
    addr text COLLATE "C" NOT NULL,
    UNIQUE (instance, idx),
    UNIQUE (network, addr)
);

CREATE TABLE volume (
    pool text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    idx bigint NOT NULL,
    size bigint NOT NULL,
    image text COLLATE "C" REFERENCES image (name),
    PRIMARY KEY (pool, name),
    UNIQUE (instance, idx)
);
CREATE INDEX volume_image ON volume (image);

CREATE TABLE lease (
    mac text COLLATE "C" NOT NULL PRIMARY KEY,
    addr text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    until bigint NOT NULL
);
CREATE INDEX lease_instance ON lease (instance);
CREATE INDEX lease_until ON lease (until);

-- A resume from before floor would miss tombstones that were pruned.
CREATE TABLE feed_node (
    node text COLLATE "C" NOT NULL PRIMARY KEY,
    revision bigint NOT NULL DEFAULT 0,
    floor bigint NOT NULL DEFAULT 0,
    applied bigint NOT NULL DEFAULT 0,
    applied_at bigint
);

CREATE TABLE blob (
    sha256 text COLLATE "C" NOT NULL PRIMARY KEY,
    data bytea NOT NULL,
    unused_since bigint
);
CREATE INDEX blob_unused ON blob (unused_since) WHERE unused_since IS NOT NULL;

-- A row without a record is a tombstone.
CREATE TABLE feed (
    node text COLLATE "C" NOT NULL REFERENCES feed_node (node),
    instance text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    record text COLLATE "C",
    blob text COLLATE "C" REFERENCES blob (sha256),
    PRIMARY KEY (node, instance),
    UNIQUE (node, revision)
);
CREATE INDEX feed_instance ON feed (instance);
CREATE INDEX feed_blob ON feed (blob);

CREATE TABLE guest_event (
    id bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    node text COLLATE "C" NOT NULL,
    spool text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    instance text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    mac text COLLATE "C" NOT NULL,
    addr text COLLATE "C" NOT NULL,
    until bigint,
    method text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    status bigint NOT NULL,
    bytes bigint NOT NULL,
    fields text COLLATE "C" NOT NULL,
    UNIQUE (node, spool, seq)
);
CREATE INDEX guest_event_instance ON guest_event (instance, id);
CREATE INDEX guest_event_at ON guest_event (at);

CREATE TABLE cron_run (
    task text COLLATE "C" NOT NULL,
    slot bigint NOT NULL,
    PRIMARY KEY (task, slot)
);
