-- What PVC's provisioner composes machines from. Names are what others refer to
-- them by; their numbers are never given again.

-- +goose Up
CREATE TABLE system_template (
    id                 integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    name               text    NOT NULL UNIQUE,
    vcpus              integer NOT NULL CHECK (vcpus > 0),
    memory             integer NOT NULL CHECK (memory > 0),
    serial             integer NOT NULL,
    vnc                integer NOT NULL,
    vnc_bind           text    NOT NULL,
    node_limit         text    NOT NULL,
    node_selector      text    NOT NULL,
    node_autostart     integer NOT NULL,
    migration_method   text    NOT NULL,
    migration_downtime integer NOT NULL, -- microseconds
    revision           integer NOT NULL,
    created            integer NOT NULL,
    changed            integer NOT NULL
) STRICT;

CREATE TABLE network_template (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    name     text    NOT NULL UNIQUE,
    mac      text    NOT NULL,
    revision integer NOT NULL,
    created  integer NOT NULL,
    changed  integer NOT NULL
) STRICT;

-- A second NIC on the same network, which must be asked for, has another copy.
CREATE TABLE network_template_net (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    template integer NOT NULL REFERENCES network_template (id) ON DELETE CASCADE,
    vni      text    NOT NULL REFERENCES network (name),
    copy     integer NOT NULL,
    UNIQUE (template, vni, copy)
) STRICT;
CREATE INDEX network_template_net_vni ON network_template_net (vni);

CREATE TABLE storage_template (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    name     text    NOT NULL UNIQUE,
    revision integer NOT NULL,
    created  integer NOT NULL,
    changed  integer NOT NULL
) STRICT;

-- A disk is a clone, or has a size.
CREATE TABLE storage_template_disk (
    id              integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    template        integer NOT NULL REFERENCES storage_template (id) ON DELETE CASCADE,
    name            text    NOT NULL,
    pool            text    NOT NULL,
    source          text    REFERENCES image (name),
    size            integer NOT NULL CHECK (size >= 0 AND (source IS NULL) = (size > 0)),
    filesystem      text    NOT NULL,
    filesystem_args text    NOT NULL,
    mountpoint      text    NOT NULL,
    UNIQUE (template, name)
) STRICT;
CREATE INDEX storage_template_disk_source ON storage_template_disk (source);

CREATE TABLE userdata (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    name     text    NOT NULL UNIQUE,
    content  text    NOT NULL,
    revision integer NOT NULL,
    created  integer NOT NULL,
    changed  integer NOT NULL
) STRICT;

CREATE TABLE script (
    id       integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    name     text    NOT NULL UNIQUE,
    content  text    NOT NULL,
    revision integer NOT NULL,
    created  integer NOT NULL,
    changed  integer NOT NULL
) STRICT;

CREATE TABLE provisioner_profile (
    id        integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    name      text    NOT NULL UNIQUE,
    type      text    NOT NULL,
    system    text    NOT NULL REFERENCES system_template (name),
    network   text    REFERENCES network_template (name),
    storage   text    REFERENCES storage_template (name),
    userdata  text    REFERENCES userdata (name),
    script    text    NOT NULL REFERENCES script (name),
    arguments text    NOT NULL,
    revision  integer NOT NULL,
    created   integer NOT NULL,
    changed   integer NOT NULL
) STRICT;
CREATE INDEX provisioner_profile_system ON provisioner_profile (system);
CREATE INDEX provisioner_profile_network ON provisioner_profile (network);
CREATE INDEX provisioner_profile_storage ON provisioner_profile (storage);
CREATE INDEX provisioner_profile_userdata ON provisioner_profile (userdata);
CREATE INDEX provisioner_profile_script ON provisioner_profile (script);

UPDATE version SET schema = 7;
