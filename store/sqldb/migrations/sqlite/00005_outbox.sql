-- Seedbed's own webhooks: who is told of events, and what is on its way.

-- +goose Up
CREATE TABLE endpoint (
    name          text    NOT NULL PRIMARY KEY,
    url           text    NOT NULL,
    events        text    NOT NULL,
    cloudevents   integer NOT NULL,
    allow_private integer NOT NULL,
    insecure      integer NOT NULL,
    enabled       integer NOT NULL,
    reason        text    NOT NULL DEFAULT '', -- why it was disabled
    seq           integer NOT NULL DEFAULT 0,  -- the last outbox row's
    owner         text    NOT NULL DEFAULT '',
    epoch         integer NOT NULL DEFAULT 0,
    lease_until   integer,
    failures      integer NOT NULL DEFAULT 0,  -- since the last success
    failing_since integer,
    open_until    integer,                     -- no attempt before
    created       integer NOT NULL
) STRICT;

CREATE TABLE endpoint_key (
    endpoint text    NOT NULL REFERENCES endpoint (name) ON DELETE CASCADE,
    id       text    NOT NULL,
    key      blob    NOT NULL,
    created  integer NOT NULL,
    expires  integer,
    PRIMARY KEY (endpoint, id)
) STRICT;

-- One row for each event and endpoint that is told it.
CREATE TABLE outbox (
    endpoint text    NOT NULL REFERENCES endpoint (name) ON DELETE CASCADE,
    seq      integer NOT NULL,
    id       text    NOT NULL UNIQUE,
    type     text    NOT NULL,
    subject  text    NOT NULL,
    data     text    NOT NULL,
    at       integer NOT NULL,
    state    text    NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_at  integer, -- of a pending one; NULL is at once
    tried    integer,
    took     integer NOT NULL DEFAULT 0, -- microseconds
    status   integer NOT NULL DEFAULT 0,
    error    text    NOT NULL DEFAULT '',
    PRIMARY KEY (endpoint, seq)
) STRICT;
CREATE INDEX outbox_pending ON outbox (endpoint, seq) WHERE state = 'pending';
CREATE INDEX outbox_dead ON outbox (endpoint) WHERE state = 'dead';
CREATE INDEX outbox_at ON outbox (at);

UPDATE version SET schema = 5;
