-- The snapshots of instances, which a project's quota bounds. Those that were taken before are known from
-- their jobs, as far as these are still stored.

-- +goose Up
CREATE TABLE snapshot (
    instance text COLLATE "C" NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    name     text COLLATE "C" NOT NULL,
    job      text COLLATE "C" NOT NULL, -- that takes it
    rebuild  text COLLATE "C" NOT NULL DEFAULT '', -- the job that has replaced its volumes, and can still be undone
    PRIMARY KEY (instance, name, rebuild)
);
INSERT INTO snapshot (instance, name, job)
  SELECT taken.instance, taken.name, MIN(taken.id)
  FROM (SELECT id, instance, created, CASE WHEN kind = 'snapshot' THEN CAST(job.spec AS json) ->> 'name' END AS name
    FROM job WHERE kind = 'snapshot' AND state <> 'rolled_back') AS taken
  JOIN instance ON instance.id = taken.instance
  WHERE taken.name <> '' AND NOT EXISTS (SELECT 1 FROM job AS later
    WHERE later.instance = taken.instance AND later.state = 'succeeded' AND later.created > taken.created
    AND CASE later.kind WHEN 'rebuild' THEN true WHEN 'snapshot_remove' THEN CAST(later.spec AS json) ->> 'name' = taken.name ELSE false END)
  GROUP BY taken.instance, taken.name;

UPDATE version SET schema = 29, min_program = 29;
