-- Whose the backups are: the projects of instances of which a backup was asked for, also of those that were removed since.

-- +goose Up
CREATE TABLE backup_owner (
    instance text NOT NULL PRIMARY KEY,
    project  text NOT NULL, -- which may be removed: no other one gets its name
    removed  integer -- when the instance was removed; NULL while it exists
) STRICT;
INSERT INTO backup_owner (instance, project, removed) SELECT id, project, NULL FROM instance;
INSERT INTO backup_owner (instance, project, removed)
  SELECT instance, MIN(project), CAST(strftime('%s', 'now') AS integer) * 1000000 FROM job
  WHERE kind = 'backup' AND instance NOT IN (SELECT id FROM instance)
  GROUP BY instance;

UPDATE version SET schema = 57, min_program = 57;
