-- What jobs that were undone have left behind. It is known until it is gone, and
-- goes with the instance or image that it is of.

-- +goose Up
CREATE TABLE orphan (
    job text COLLATE "C" NOT NULL,
    stage text COLLATE "C" NOT NULL,
    idx bigint NOT NULL,
    kind text COLLATE "C" NOT NULL, -- volume, snapshot, image, domain or stage
    pool text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    why text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    tries bigint NOT NULL,
    tried bigint NOT NULL,
    PRIMARY KEY (job, stage, idx)
);

-- What carries our tag on a node, and is of no instance or image that is known.
CREATE TABLE stray (
    node text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL, -- domain, volume or image
    pool text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL, -- the instance or job of the tag
    since bigint NOT NULL,
    tries bigint NOT NULL, -- how often it was seen
    tried bigint NOT NULL,
    PRIMARY KEY (node, kind, pool, name)
);

-- What older jobs have left is listed, and is undone when somebody asks for it: of those the cleanup has tried enough.
INSERT INTO orphan (job, stage, idx, kind, pool, name, why, since, tries, tried)
SELECT job_stage.job, job_stage.name, 0, 'stage', '', job_stage.name, job_stage.error, COALESCE(job_stage.ended, job_stage.started), 20, COALESCE(job_stage.ended, job_stage.started)
FROM job_stage JOIN job ON job.id = job_stage.job
WHERE job.state = 'rollback_incomplete' AND job_stage.state = 'orphans'
    AND (EXISTS (SELECT 1 FROM instance WHERE instance.id = job.instance) OR EXISTS (SELECT 1 FROM claim WHERE claim.job = job.id));

UPDATE version SET schema = 18;
