-- Where a node gets encrypted frames of overlays: its public key and UDP port. No two nodes have the same address or key. Nodes that
-- had one report theirs again.

-- +goose Up
ALTER TABLE node ADD COLUMN tunnel_key text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE node ADD COLUMN tunnel_port integer NOT NULL DEFAULT 0;
UPDATE node SET address = '' WHERE address IN (SELECT address FROM node GROUP BY address HAVING COUNT(*) > 1);
CREATE UNIQUE INDEX node_address ON node (address) WHERE address <> '';
CREATE UNIQUE INDEX node_tunnel_key ON node (tunnel_key) WHERE tunnel_key <> '';

UPDATE version SET schema = 43, min_program = 43;
