package instances

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/sqldb"
)

const networkColumns = `name, bridge, mac, prefix, gateway, dns, nat, dhcp, identity, allow`

func scanNetwork(r sqldb.Row) (n seedbed.Network, err error) {
	err = r.Scan(&n.Name, &n.Bridge, sqldb.ToText(&n.MAC), sqldb.ToText(&n.Prefix), sqldb.ToText(&n.Gateway),
		sqldb.ToJSON(&n.DNS), &n.NAT, &n.DHCP, &n.Identity, sqldb.ToJSON(&n.Allow))
	return n, err
}

// CreateNetwork adds a network. Its prefix must be IPv4, at most 30 bits long and without host
// bits. CreateNetwork returns ErrExists if the name or the bridge is taken.
func (s *Store) CreateNetwork(ctx context.Context, n seedbed.Network) (seedbed.Network, error) {
	if err := checkNetwork(n); err != nil {
		return seedbed.Network{}, err
	}
	n.DNS, n.Identity = sqldb.OrEmpty(n.DNS), cmp.Or(n.Identity, seedbed.IdentityTap)
	if n.Published == nil {
		n.Published = catalogue.Shown(seedbed.Publication{})
	}
	err := s.db.Update(ctx, "create network "+n.Name, func(tx *sqldb.Tx) error {
		made, err := sqldb.Affect(ctx, tx,
			`INSERT INTO network (`+networkColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING`,
			n.Name, n.Bridge, n.MAC.String(), n.Prefix.String(), n.Gateway.String(), sqldb.AsJSON(n.DNS),
			sqldb.Flag(n.NAT), sqldb.Flag(n.DHCP), n.Identity, sqldb.AsJSON(n.Allow))
		if err == nil && made == 1 && n.Published != nil {
			err = catalogue.SetPublication(ctx, tx, seedbed.PublishedNetwork, n.Name, *n.Published)
		}
		if err != nil || made == 1 {
			return err
		}
		other, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT name FROM network WHERE bridge = $1 AND name <> $2`, n.Bridge, n.Name)
		if err != nil {
			return err
		}
		if other != "" {
			return seedbed.Errorf(seedbed.ErrExists, "bridge %q already belongs to network %q", n.Bridge, other)
		}
		return seedbed.Errorf(seedbed.ErrExists, "network %q exists already", n.Name)
	})
	if err != nil {
		return seedbed.Network{}, err
	}
	return n, nil
}

func checkNetwork(n seedbed.Network) error {
	if err := seedbed.CheckName("network", n.Name); err != nil {
		return err
	}
	const nameSize = 15 // IFNAMSIZ less its NUL (linux/if.h)
	switch {
	case n.Bridge == "" || len(n.Bridge) > nameSize:
		return seedbed.Errorf(seedbed.ErrInvalid, "network %q: bridge %q is not an interface name: expected 1 to %d characters",
			n.Name, sqldb.Clean(n.Bridge, 80), nameSize)
	case n.MAC == seedbed.MAC{}:
		return seedbed.Errorf(seedbed.ErrInvalid, "network %q: its bridge has no MAC address", n.Name)
	case !n.Prefix.IsValid() || !n.Prefix.Addr().Is4() || n.Prefix != n.Prefix.Masked() || n.Prefix.Bits() > 30:
		return seedbed.Errorf(seedbed.ErrInvalid,
			"network %q: prefix %s is not usable: expected an IPv4 subnet of at most 30 bits, such as 10.99.0.0/24", n.Name, n.Prefix)
	case !usable(n.Prefix, n.Gateway):
		return seedbed.Errorf(seedbed.ErrInvalid, "network %q: gateway %s is not an address of a host in %s", n.Name, n.Gateway, n.Prefix)
	case n.Identity != "" && n.Identity != seedbed.IdentityTap && n.Identity != seedbed.IdentityMAC:
		return seedbed.Errorf(seedbed.ErrInvalid, "network %q: identity is %q: expected tap or mac", n.Name, sqldb.Clean(n.Identity, 80))
	}
	return nil
}

// Network returns the network called name.
func (s *Store) Network(ctx context.Context, name string) (seedbed.Network, error) {
	return sqldb.Cached(s.db, "network", name, func() (n seedbed.Network, err error) {
		err = s.db.View(ctx, "read network", func(tx *sqldb.Tx) error {
			n, err = sqldb.One(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrNotFound, "network %q does not exist", sqldb.Clean(name, 80)),
				`SELECT `+networkColumns+` FROM network WHERE name = $1`, name)
			if err != nil {
				return err
			}
			n.Published, err = networkPublished(ctx, tx, name)
			return err
		})
		return n, err
	})
}

func networkPublished(ctx context.Context, tx *sqldb.Tx, name string) (*seedbed.Publication, error) {
	to, err := catalogue.ReadPublication(ctx, tx, seedbed.PublishedNetwork, name)
	return catalogue.Shown(to), err
}

// Networks returns all networks sorted by name.
func (s *Store) Networks(ctx context.Context) (all []seedbed.Network, err error) {
	err = s.db.View(ctx, "list networks", func(tx *sqldb.Tx) error {
		if all, err = ReadNetworks(ctx, tx); err != nil {
			return err
		}
		to, err := catalogue.ReadPublications(ctx, tx, seedbed.PublishedNetwork)
		for i := range all {
			all[i].Published = catalogue.Shown(to[all[i].Name])
		}
		return err
	})
	return all, err
}

// ReadNetworks returns all networks sorted by name, without their publications.
func ReadNetworks(ctx context.Context, tx *sqldb.Tx) ([]seedbed.Network, error) {
	return sqldb.List(ctx, tx, scanNetwork, `SELECT `+networkColumns+` FROM network ORDER BY name`)
}

// ChangeNetwork changes what may change of a network while guests use it: how guests are
// identified, and what they are allowed. change sets these, and may be called more than once. Every
// node is notified. ChangeNetwork returns ErrNotFound or ErrInvalid.
func (s *Store) ChangeNetwork(ctx context.Context, name string, change func(*seedbed.Network) error) (n seedbed.Network, err error) {
	missing := seedbed.Errorf(seedbed.ErrNotFound, "network %q does not exist", sqldb.Clean(name, 80))
	err = s.db.Update(ctx, "change network", func(tx *sqldb.Tx) error {
		n, err = sqldb.One(ctx, tx, scanNetwork, missing, `UPDATE network SET name = name WHERE name = $1 RETURNING `+networkColumns, name)
		if err != nil {
			return err
		}
		if n.Published, err = networkPublished(ctx, tx, name); err != nil {
			return err
		}
		was := n
		if err := change(&n); err != nil {
			return err
		}
		n.Identity = cmp.Or(n.Identity, seedbed.IdentityTap)
		if err := checkNetwork(n); err != nil {
			return err
		}
		if n.Identity == was.Identity && n.Allow == was.Allow {
			return sqldb.ErrUnchanged
		}
		err := sqldb.Exec(ctx, tx, `UPDATE network SET identity = $1, allow = $2 WHERE name = $3`, n.Identity, sqldb.AsJSON(n.Allow), name)
		if err != nil {
			return err
		}
		return s.touch(ctx, tx)
	})
	return n, err
}

// PublishNetwork says to which other projects a network is published, and returns the network. It returns
// ErrNotFound, ErrInvalid for a publication that it cannot have, or the error of a check that the network as
// it was does not pass.
func (s *Store) PublishNetwork(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Network) error,
) (n seedbed.Network, err error) {
	missing := seedbed.PublishedNetwork.Missing(seedbed.ErrNotFound, name)
	err = s.db.Update(ctx, "publish network "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		n, err = sqldb.LockOne(ctx, tx, scanNetwork, missing, `UPDATE network SET name = name WHERE name = $1 RETURNING `+networkColumns, name)
		if err != nil {
			return err
		}
		if n.Published, err = networkPublished(ctx, tx, name); err != nil {
			return err
		}
		if err := sqldb.Pass(n, checks); err != nil {
			return err
		}
		if err := catalogue.SetPublication(ctx, tx, seedbed.PublishedNetwork, name, to); err != nil {
			return err
		}
		n.Published, err = networkPublished(ctx, tx, name)
		return err
	})
	return n, err
}
