-- What carries Seedbed's tag but is not known belongs to the project in the tag. The audit log is read by
-- project.

-- +goose Up
ALTER TABLE stray ADD COLUMN project text NOT NULL DEFAULT ''; -- empty if the tag has none

ALTER TABLE audit ADD COLUMN visits integer NOT NULL DEFAULT 0; -- 1 if an admin of the installation acted in another project
UPDATE audit SET visits = 1 WHERE project <> 'default' AND actor NOT LIKE 'token ' || project || '/%';
CREATE INDEX audit_project ON audit (project, id);

UPDATE version SET schema = 28;
