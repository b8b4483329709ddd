package nodes

import (
	"context"
	"net/netip"

	"seedbed"
	"seedbed/store/sqldb"
)

// reach is how the other nodes send a node the frames of overlays, as they are told. They are not told of a node without an address.
// A unique index keeps two nodes from having the same address or key.
type reach struct {
	addr   netip.Addr
	tunnel seedbed.Tunnel
}

// reachColumns are the columns that scanReach reads.
const reachColumns = `name, address, tunnel_key, tunnel_port, problem <> ''`

// reached is the reach of a node, and whether the node is down.
type reached struct {
	name string
	reach
	down bool
}

func scanReach(r sqldb.Row) (n reached, err error) {
	err = r.Scan(&n.name, sqldb.ToText(&n.addr), sqldb.ToText(&n.tunnel.Key), &n.tunnel.Port, &n.down)
	return n, err
}

// noteReach records how a node says that it is reached. If another node that is not down has the address or the key, nobody is told
// of this one: whoever takes what is another's gets nothing of it. One that is down loses them: the host may have another name now.
func (s *Store) noteReach(ctx context.Context, tx *sqldb.Tx, name string, r seedbed.NodeReport) error {
	was, err := sqldb.One(ctx, tx, scanReach, NoNode(name), `SELECT `+reachColumns+` FROM node WHERE name = $1`, name)
	if err != nil {
		return err
	}
	next := was.next(r)
	if next == was.reach {
		return nil
	}
	addr, key := next.columns()
	others, err := sqldb.List(ctx, tx, scanReach, `SELECT `+reachColumns+` FROM node
		WHERE name <> $1 AND (address <> '' AND address = $2 OR tunnel_key <> '' AND tunnel_key = $3) ORDER BY name`, name, addr, key)
	if err != nil {
		return err
	}
	for _, o := range others {
		if !o.down {
			next = reach{}
		}
	}
	if next == was.reach {
		return nil
	}
	if next != (reach{}) {
		for _, o := range others {
			if err := setReach(ctx, tx, o.name, reach{}); err != nil {
				return err
			}
		}
	}
	if err := setReach(ctx, tx, name, next); err != nil {
		return err
	}
	return s.touch(ctx, tx)
}

// next returns the reach after a report. A node that does not know its address or its key for a moment keeps the last one. One that
// encrypts and never knew its key is not reached: frames for it must not be sent in plain.
func (r reach) next(report seedbed.NodeReport) reach {
	next := reach{r.addr, report.Tunnel}
	if report.Address.IsValid() {
		next.addr = report.Address
	}
	if report.Tunnel != (seedbed.Tunnel{}) && !report.Tunnel.Keyed() {
		next.tunnel = r.tunnel
	}
	if !next.addr.IsValid() || report.Tunnel != (seedbed.Tunnel{}) && !next.tunnel.Keyed() {
		return reach{}
	}
	return next
}

// columns returns the address and the key as the table has them.
func (r reach) columns() (addr, key string) {
	if r.addr.IsValid() {
		addr = r.addr.String()
	}
	if r.tunnel.Keyed() {
		key = r.tunnel.Key.String()
	}
	return addr, key
}

func setReach(ctx context.Context, tx *sqldb.Tx, name string, r reach) error {
	addr, key := r.columns()
	return sqldb.Exec(ctx, tx, `UPDATE node SET address = $1, tunnel_key = $2, tunnel_port = $3 WHERE name = $4`,
		addr, key, int(r.tunnel.Port), name)
}

// ReadAddresses returns where nodes get the frames of overlays, by name, of those of which it is known, and the tunnels of those that
// encrypt them. No two have the same address or key.
func ReadAddresses(ctx context.Context, tx *sqldb.Tx) (map[string]netip.Addr, map[string]seedbed.Tunnel, error) {
	all, tunnels := map[string]netip.Addr{}, map[string]seedbed.Tunnel{}
	_, err := sqldb.List(ctx, tx, func(r sqldb.Row) (n reached, err error) {
		if n, err = scanReach(r); err == nil {
			all[n.name] = n.addr
			if n.tunnel.Keyed() {
				tunnels[n.name] = n.tunnel
			}
		}
		return n, err
	}, `SELECT `+reachColumns+` FROM node WHERE address <> '' ORDER BY name`)
	return all, tunnels, err
}
