-- The hypervisors, and where an image is whose pool they do not share.

-- +goose Up
CREATE TABLE node (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    worker text COLLATE "C" NOT NULL, -- the URL of its worker; empty for the socket of the control host of that name
    cordoned bigint, -- since when it takes no new instances
    created bigint NOT NULL,
    report text COLLATE "C" NOT NULL, -- what its worker said last, as JSON; empty before
    seen bigint, -- when that was
    problem text COLLATE "C" NOT NULL -- why it does not answer; empty while it does
);

ALTER TABLE image ADD COLUMN node text COLLATE "C" NOT NULL DEFAULT '';
UPDATE image SET node = COALESCE((SELECT job.node FROM claim JOIN job ON job.id = claim.job WHERE claim.kind = 'image' AND claim.key = image.name), '');

UPDATE version SET schema = 15;
