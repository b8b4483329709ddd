-- To which other projects an object of a project is published: by name, or '*' for all. Until now all
-- projects used all images, networks and profiles.

-- +goose Up
CREATE TABLE published (
  kind    TEXT NOT NULL, -- seedbed.PublishedKind
  name    TEXT NOT NULL, -- qualified
  project TEXT NOT NULL,
  PRIMARY KEY (kind, name, project)
);
INSERT INTO published (kind, name, project) SELECT 'image', name, '*' FROM image WHERE dropped = 0;
INSERT INTO published (kind, name, project) SELECT 'network', name, '*' FROM network;
INSERT INTO published (kind, name, project) SELECT 'profile', name, '*' FROM profile;

UPDATE version SET schema = 31, min_program = 31;
