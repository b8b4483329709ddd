-- Times are unix microseconds, booleans 0 or 1, lists and records JSON text.

-- +goose Up
CREATE TABLE version (
    one         integer NOT NULL PRIMARY KEY CHECK (one = 1),
    schema      integer NOT NULL, -- the last migration that was applied
    min_program integer NOT NULL  -- the least schema that a program must know to work on this database
) STRICT;
INSERT INTO version (one, schema, min_program) VALUES (1, 1, 1);

CREATE TABLE setting (
    key   text NOT NULL PRIMARY KEY,
    value blob NOT NULL
) STRICT;

CREATE TABLE network (
    name    text    NOT NULL PRIMARY KEY,
    bridge  text    NOT NULL UNIQUE,
    mac     text    NOT NULL,
    prefix  text    NOT NULL,
    gateway text    NOT NULL,
    dns     text    NOT NULL,
    nat     integer NOT NULL,
    dhcp    integer NOT NULL
) STRICT;

-- A dropped image exists no more, but a profile or volume still names it.
CREATE TABLE image (
    name    text    NOT NULL PRIMARY KEY,
    pool    text    NOT NULL,
    state   text    NOT NULL,
    size    integer NOT NULL,
    source  text    NOT NULL,
    format  text    NOT NULL,
    sha256  text    NOT NULL,
    created integer NOT NULL,
    dropped integer NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE profile (
    name      text    NOT NULL PRIMARY KEY,
    image     text    NOT NULL REFERENCES image (name),
    vcpus     integer NOT NULL,
    memory    integer NOT NULL,
    disk_size integer NOT NULL,
    network   text    NOT NULL REFERENCES network (name),
    ssh_keys  text    NOT NULL,
    user_data blob,
    ready     text    NOT NULL,
    revision  integer NOT NULL,
    created   integer NOT NULL,
    changed   integer NOT NULL
) STRICT;
CREATE INDEX profile_image ON profile (image);

CREATE TABLE hook (
    name      text    NOT NULL PRIMARY KEY,
    key       blob    NOT NULL,
    actions   text    NOT NULL,
    tolerance integer NOT NULL, -- microseconds
    created   integer NOT NULL
) STRICT;

CREATE TABLE hook_profile (
    hook    text    NOT NULL REFERENCES hook (name) ON DELETE CASCADE,
    idx     integer NOT NULL,
    profile text    NOT NULL REFERENCES profile (name),
    PRIMARY KEY (hook, profile)
) STRICT;
CREATE INDEX hook_profile_profile ON hook_profile (profile);

CREATE TABLE job (
    id          text    NOT NULL PRIMARY KEY,
    kind        text    NOT NULL,
    state       text    NOT NULL,
    subject     text    NOT NULL,
    instance    text    NOT NULL,
    spec        text,
    node        text    NOT NULL,
    owner       text    NOT NULL DEFAULT '',
    epoch       integer NOT NULL DEFAULT 0,
    lease_until integer,
    stage       text    NOT NULL DEFAULT '',
    done        integer NOT NULL DEFAULT 0,
    total       integer NOT NULL DEFAULT 0,
    progress    integer NOT NULL DEFAULT 0,
    attempts    integer NOT NULL DEFAULT 0,
    error       text    NOT NULL DEFAULT '',
    cancel      integer NOT NULL DEFAULT 0,
    events      integer NOT NULL DEFAULT 0, -- the last event's seq
    created     integer NOT NULL,
    started     integer,
    ended       integer
) STRICT;
CREATE INDEX job_live ON job (created, id) WHERE state IN ('queued', 'running', 'undoing');
CREATE INDEX job_created ON job (created, id);
CREATE INDEX job_instance ON job (instance);

CREATE TABLE job_stage (
    job     text    NOT NULL REFERENCES job (id),
    n       integer NOT NULL,
    name    text    NOT NULL,
    state   text    NOT NULL,
    error   text    NOT NULL DEFAULT '',
    started integer NOT NULL,
    ended   integer,
    PRIMARY KEY (job, n),
    UNIQUE (job, name)
) STRICT;

CREATE TABLE job_event (
    job      text    NOT NULL REFERENCES job (id),
    seq      integer NOT NULL,
    at       integer NOT NULL,
    level    text    NOT NULL,
    stage    text    NOT NULL,
    msg      text    NOT NULL,
    progress integer NOT NULL,
    PRIMARY KEY (job, seq)
) STRICT;

-- At most one live holder for each (kind, key). The holder is an instance's ID
-- or an image's name; the job is the one that made the claim.
CREATE TABLE claim (
    kind   text NOT NULL,
    key    text NOT NULL,
    job    text NOT NULL REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    holder text NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT;
CREATE INDEX claim_holder ON claim (holder);

CREATE TABLE delivery (
    hook     text    NOT NULL,
    id       text    NOT NULL,
    sha256   blob    NOT NULL,
    received integer NOT NULL,
    job      text    NOT NULL REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (hook, id)
) STRICT;
CREATE INDEX delivery_received ON delivery (received);

CREATE TABLE instance (
    id           text    NOT NULL PRIMARY KEY,
    name         text    NOT NULL UNIQUE,
    profile      text    NOT NULL,
    image        text    NOT NULL,
    node         text    NOT NULL,
    state        text    NOT NULL,
    vcpus        integer NOT NULL,
    memory       integer NOT NULL,
    ready        text    NOT NULL,
    held         integer NOT NULL,
    user_data    blob,
    ssh_keys     text    NOT NULL,
    report_token text    NOT NULL,
    revision     integer NOT NULL,
    created      integer NOT NULL,
    changed      integer NOT NULL,
    fetched      integer,
    reported     integer,
    gone_since   integer
) STRICT;

-- AUTOINCREMENT: a NIC's number is never given again.
CREATE TABLE nic (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (id <= 2147483647),
    instance text    NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    idx      integer NOT NULL,
    mac      text    NOT NULL UNIQUE,
    network  text    NOT NULL REFERENCES network (name),
    addr     text    NOT NULL,
    UNIQUE (instance, idx),
    UNIQUE (network, addr)
) STRICT;

CREATE TABLE volume (
    pool     text    NOT NULL,
    name     text    NOT NULL,
    instance text    NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    idx      integer NOT NULL,
    size     integer NOT NULL,
    image    text REFERENCES image (name),
    PRIMARY KEY (pool, name),
    UNIQUE (instance, idx)
) STRICT;
CREATE INDEX volume_image ON volume (image);

CREATE TABLE lease (
    mac      text    NOT NULL PRIMARY KEY,
    addr     text    NOT NULL,
    instance text    NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    until    integer NOT NULL
) STRICT;
CREATE INDEX lease_instance ON lease (instance);
CREATE INDEX lease_until ON lease (until);

-- A resume from before floor would miss tombstones that were pruned.
CREATE TABLE feed_node (
    node       text    NOT NULL PRIMARY KEY,
    revision   integer NOT NULL DEFAULT 0,
    floor      integer NOT NULL DEFAULT 0,
    applied    integer NOT NULL DEFAULT 0,
    applied_at integer
) STRICT;

CREATE TABLE blob (
    sha256       text NOT NULL PRIMARY KEY,
    data         blob NOT NULL,
    unused_since integer
) STRICT;
CREATE INDEX blob_unused ON blob (unused_since) WHERE unused_since IS NOT NULL;

-- A row without a record is a tombstone.
CREATE TABLE feed (
    node     text    NOT NULL REFERENCES feed_node (node),
    instance text    NOT NULL,
    revision integer NOT NULL,
    record   text,
    blob     text REFERENCES blob (sha256),
    PRIMARY KEY (node, instance),
    UNIQUE (node, revision)
) STRICT;
CREATE INDEX feed_instance ON feed (instance);
CREATE INDEX feed_blob ON feed (blob);

CREATE TABLE guest_event (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    node     text    NOT NULL,
    spool    text    NOT NULL,
    seq      integer NOT NULL,
    instance text    NOT NULL,
    kind     text    NOT NULL,
    at       integer NOT NULL,
    mac      text    NOT NULL,
    addr     text    NOT NULL,
    until    integer,
    method   text    NOT NULL,
    path     text    NOT NULL,
    status   integer NOT NULL,
    bytes    integer NOT NULL,
    fields   text    NOT NULL,
    UNIQUE (node, spool, seq)
) STRICT;
CREATE INDEX guest_event_instance ON guest_event (instance, id);
CREATE INDEX guest_event_at ON guest_event (at);

CREATE TABLE cron_run (
    task text    NOT NULL,
    slot integer NOT NULL,
    PRIMARY KEY (task, slot)
) STRICT;
