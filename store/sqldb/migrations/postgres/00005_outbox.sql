-- Seedbed's own webhooks: who is told of events, and what is on its way.

-- +goose Up
CREATE TABLE endpoint (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    url text COLLATE "C" NOT NULL,
    events text COLLATE "C" NOT NULL,
    cloudevents bigint NOT NULL,
    allow_private bigint NOT NULL,
    insecure bigint NOT NULL,
    enabled bigint NOT NULL,
    reason text COLLATE "C" NOT NULL DEFAULT '', -- why it was disabled
    seq bigint NOT NULL DEFAULT 0, -- the last outbox row's
    owner text COLLATE "C" NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,
    lease_until bigint,
    failures bigint NOT NULL DEFAULT 0, -- since the last success
    failing_since bigint,
    open_until bigint, -- no attempt before
    created bigint NOT NULL
);

CREATE TABLE endpoint_key (
    endpoint text COLLATE "C" NOT NULL REFERENCES endpoint (name) ON DELETE CASCADE,
    id text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    PRIMARY KEY (endpoint, id)
);

-- One row for each event and endpoint that is told it.
CREATE TABLE outbox (
    endpoint text COLLATE "C" NOT NULL REFERENCES endpoint (name) ON DELETE CASCADE,
    seq bigint NOT NULL,
    id text COLLATE "C" NOT NULL UNIQUE,
    type text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    next_at bigint, -- of a pending one; NULL is at once
    tried bigint,
    took bigint NOT NULL DEFAULT 0, -- microseconds
    status bigint NOT NULL DEFAULT 0,
    error text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (endpoint, seq)
);
CREATE INDEX outbox_pending ON outbox (endpoint, seq) WHERE state = 'pending';
CREATE INDEX outbox_dead ON outbox (endpoint) WHERE state = 'dead';
CREATE INDEX outbox_at ON outbox (at);

UPDATE version SET schema = 5;
