-- Nothing: the number is another change's.

-- +goose Up
UPDATE version SET schema = 56, min_program = 56;
