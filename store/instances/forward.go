package instances

import (
	"context"
	"maps"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/catalogue"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

// haveForwards is the condition that NICs have forwards, which few have; they have an index.
const haveForwards = `nic.forwards <> '[]'`

// reforward writes the forwards of an instance's NICs which differ from those of before. It returns ErrInvalid if a NIC
// cannot have them, and ErrConflict if another has one of these ports.
func reforward(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, before []seedbed.NIC) error {
	for i, n := range inst.NICs {
		if slices.Equal(n.Forwards, before[i].Forwards) {
			continue
		}
		if err := checkForwards(ctx, tx, n); err != nil {
			return err
		}
		if err := besideTunnels(ctx, tx, n.Forwards, before[i].Forwards); err != nil {
			return err
		}
		err := sqldb.Exec(ctx, tx, `UPDATE nic SET forwards = $1 WHERE instance = $2 AND idx = $3`,
			sqldb.AsJSON(sqldb.OrEmpty(n.Forwards)), inst.ID, n.Index)
		if err != nil {
			return err
		}
		if err := alone(ctx, tx, inst.ID, n); err != nil {
			return err
		}
	}
	return nil
}

// checkForwards returns ErrInvalid unless a NIC can have its forwards.
func checkForwards(ctx context.Context, tx *sqldb.Tx, n seedbed.NIC) error {
	if len(n.Forwards) == 0 {
		return nil
	}
	if len(n.Forwards) > seedbed.MaxForwards {
		return seedbed.Errorf(seedbed.ErrInvalid, "NIC %d would have %d forwards: expected at most %d",
			n.Index, len(n.Forwards), seedbed.MaxForwards)
	}
	for _, f := range n.Forwards {
		if err := f.CheckNew(); err != nil {
			return err
		}
	}
	network, err := lockNetwork(ctx, tx, n.Network)
	if err == nil && !network.Kind.Outside() {
		err = seedbed.Errorf(seedbed.ErrInvalid, "NIC %d is in network %q, which is %s: expected a network of kind nat or routed",
			n.Index, n.Network, network.Kind)
	}
	for _, f := range n.Forwards {
		switch {
		case err != nil:
		case f.Listen.Addr.Is6() && !network.Prefix6.IsValid():
			err = seedbed.Errorf(seedbed.ErrInvalid, "forward %s: NIC %d has no IPv6 address, since its network %q has no IPv6 prefix (prefix6)",
				f.Listen, n.Index, n.Network)
		case !f.Listen.Addr.Is6() && !network.Prefix.IsValid():
			err = seedbed.Errorf(seedbed.ErrInvalid, "forward %s: NIC %d is in network %q, %s: expected one over IPv6, such as tcp:[::]:8080",
				f.Listen, n.Index, n.Network, network.Without4())
		}
	}
	return err
}

// besideTunnels returns ErrInvalid if one of the forwards that were not there before takes the UDP port at which a node gets encrypted
// frames of overlays. The instance may come to run on that node, where the port is the tunnels'.
func besideTunnels(ctx context.Context, tx *sqldb.Tx, now, before []seedbed.Forward) error {
	for _, f := range now {
		if f.Listen.Protocol != "udp" || slices.Contains(before, f) {
			continue
		}
		_, tunnels, err := nodes.ReadAddresses(ctx, tx)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(tunnels)) {
			if port := tunnels[name].Port; f.Listen.First <= port && port <= f.Listen.Last {
				return seedbed.Errorf(seedbed.ErrInvalid, "forward %s: at UDP port %d, node %s gets the encrypted frames of overlays "+
					"(network.overlay.port): choose another port", f.Listen, port, name)
			}
		}
	}
	return nil
}

// alone returns ErrConflict if another NIC has one of the ports of a NIC's forwards, or this one has it twice. Whatever node
// the instances run on now, they may come to run on one.
func alone(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, n seedbed.NIC) error {
	if _, err := access.HoldProject(ctx, tx, seedbed.DefaultProject); err != nil { // keeps such transactions apart
		return err
	}
	type owner struct {
		id       seedbed.InstanceID
		name     string
		nic      int
		forwards []seedbed.Forward
	}
	all, err := sqldb.List(ctx, tx, func(r sqldb.Row) (o owner, err error) {
		err = r.Scan(&o.id, &o.name, &o.nic, sqldb.ToJSON(&o.forwards))
		return o, err
	}, `SELECT instance.id, `+FullName+` AS full_name, nic.idx, nic.forwards FROM nic JOIN instance ON instance.id = nic.instance
		WHERE `+haveForwards+` ORDER BY full_name, nic.idx`)
	if err != nil {
		return err
	}
	for at, f := range n.Forwards {
		for _, o := range all {
			for other, g := range o.forwards {
				switch same := o.id == id && o.nic == n.Index; {
				case !f.Listen.Overlaps(g.Listen) || same && other >= at:
				case same:
					return seedbed.Errorf(seedbed.ErrConflict, "NIC %d has the forward %s already, which shares ports with %s",
						n.Index, g.Listen, f.Listen)
				default:
					return seedbed.Errorf(seedbed.ErrConflict,
						"the forward %s shares ports with %s, which goes to NIC %d of instance %s: choose others, or remove that",
						f.Listen, g.Listen, o.nic, o.name)
				}
			}
		}
	}
	return nil
}

// Forwards returns the forwards into a network, or into all if it is empty, to the instances of a scope, in the order of their
// listens.
func (s *Store) Forwards(ctx context.Context, in seedbed.Scope, network string) ([]seedbed.ForwardTo, error) {
	all := []seedbed.ForwardTo{}
	w := sqldb.InScope(in)
	if network != "" {
		w.And("nic.network = %s", network)
	}
	err := s.db.View(ctx, "list forwards", func(tx *sqldb.Tx) error {
		all = all[:0]
		_, err := sqldb.List(ctx, tx, func(r sqldb.Row) (to seedbed.ForwardTo, err error) {
			var forwards []seedbed.Forward
			var mac seedbed.MAC
			var o options
			err = r.Scan(sqldb.ToText(&to.Addr), sqldb.ToText(&mac), &to.Instance, &to.NIC, &to.Node, sqldb.ToJSON(&forwards), sqldb.ToJSON(&o))
			addr := to.Addr
			for _, f := range forwards {
				if to.Forward, to.Addr = f, addr; f.Listen.Addr.Is6() {
					to.Addr = seedbed.Network{NetworkOptions: o.NetworkOptions}.Addr6(mac)
				}
				all = append(all, to)
			}
			return to, err
		}, `SELECT COALESCE(nic.addr, ''), nic.mac, `+FullName+`, nic.idx, instance.node, nic.forwards, network.options FROM nic
			JOIN instance ON instance.id = nic.instance JOIN network ON network.name = nic.network
			WHERE `+haveForwards+` AND `+w.String(), w.Args...)
		return err
	})
	slices.SortFunc(all, func(a, b seedbed.ForwardTo) int { return strings.Compare(a.Listen.Key(), b.Listen.Key()) })
	return all, err
}

// closedTo returns ErrInUse, with the instances, if forwards go into a network that is to become one of another kind, or such over
// IPv6 into one that is to lose its IPv6 prefix.
func closedTo(ctx context.Context, tx *sqldb.Tx, n seedbed.Network) error {
	which, what := haveForwards, "be "+string(n.Kind)
	if n.Kind.Outside() {
		which, what = haveForwards+` AND nic.forwards LIKE '%"listen":"___:[%'`, "be without an IPv6 prefix"
		if n.Prefix6.IsValid() {
			return nil
		}
	}
	var users catalogue.Uses
	err := users.Read(ctx, tx, []catalogue.UserKind{{What: "instance", Query: `SELECT DISTINCT instance.project, ` + FullName + ` AS full_name
		FROM nic JOIN instance ON instance.id = nic.instance WHERE nic.network = $1 AND ` + which + ` ORDER BY full_name`}}, n.Name)
	if by := users.String(); err == nil && by != "" {
		err = seedbed.Errorf(seedbed.ErrInUse, "forwards go into network %q, which cannot %s with them: remove those of %s first",
			n.Name, what, by)
	}
	return err
}
