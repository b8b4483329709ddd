-- Who may use the API, and what was changed through it.

-- +goose Up
CREATE TABLE token (
    name    text    NOT NULL PRIMARY KEY,
    role    text    NOT NULL,
    sha256  blob    NOT NULL UNIQUE, -- of its secret
    created integer NOT NULL,
    expires integer,
    used    integer
) STRICT;

-- Written in the transaction of the change.
CREATE TABLE audit (
    id      integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    at      integer NOT NULL,
    actor   text    NOT NULL,
    role    text    NOT NULL,
    peer    text    NOT NULL,
    request text    NOT NULL,
    what    text    NOT NULL,
    before  text    NOT NULL,
    asked   text    NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at);

UPDATE version SET schema = 6;
