-- Security groups: what NICs may send and receive. A NIC of before is in the built-in group "open".

-- +goose Up
CREATE TABLE security_group (
    name        text COLLATE "C" NOT NULL PRIMARY KEY, -- qualified
    description text COLLATE "C" NOT NULL,
    rules       text COLLATE "C" NOT NULL, -- JSON
    created     bigint NOT NULL
);
ALTER TABLE nic ADD COLUMN security_groups text COLLATE "C" NOT NULL DEFAULT '[]'; -- JSON
ALTER TABLE profile ADD COLUMN security_groups text COLLATE "C" NOT NULL DEFAULT '[]'; -- JSON, without the project

UPDATE version SET schema = 34, min_program = 34;
