-- The hypervisors, and where an image is whose pool they do not share.

-- +goose Up
CREATE TABLE node (
    name     text    NOT NULL PRIMARY KEY,
    worker   text    NOT NULL, -- the URL of its worker; empty for the socket of the control host of that name
    cordoned integer,          -- since when it takes no new instances
    created  integer NOT NULL,
    report   text    NOT NULL, -- what its worker said last, as JSON; empty before
    seen     integer,          -- when that was
    problem  text    NOT NULL  -- why it does not answer; empty while it does
) STRICT;

ALTER TABLE image ADD COLUMN node text NOT NULL DEFAULT '';
UPDATE image SET node = COALESCE((SELECT job.node FROM claim JOIN job ON job.id = claim.job WHERE claim.kind = 'image' AND claim.key = image.name), '');

UPDATE version SET schema = 15;
