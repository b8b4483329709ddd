-- Whose the backups are: the projects of instances of which a backup was asked for, also of those that were removed since.

-- +goose Up
CREATE TABLE backup_owner (
    instance text COLLATE "C" NOT NULL PRIMARY KEY,
    project  text COLLATE "C" NOT NULL, -- which may be removed: no other one gets its name
    removed  bigint -- when the instance was removed; NULL while it exists
);
INSERT INTO backup_owner (instance, project, removed) SELECT id, project, NULL FROM instance;
INSERT INTO backup_owner (instance, project, removed)
  SELECT instance, MIN(project), CAST(extract(epoch FROM now()) * 1000000 AS bigint) FROM job
  WHERE kind = 'backup' AND instance NOT IN (SELECT id FROM instance)
  GROUP BY instance;

UPDATE version SET schema = 57, min_program = 57;
