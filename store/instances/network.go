package instances

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/catalogue"
	"seedbed/store/sqldb"
)

const networkColumns = `name, kind, bridge, mac, prefix, gateway, dns, nat, dhcp, options, identity, allow, uplink, vlan, vni`

// options is what the column of that name has.
type options struct {
	seedbed.NetworkOptions
	ACLs []seedbed.NetworkACL `json:"acls,omitempty"`
}

func scanNetwork(r sqldb.Row) (n seedbed.Network, err error) {
	var o options
	err = r.Scan(&n.Name, &n.Kind, &n.Bridge, sqldb.ToText(&n.MAC), sqldb.ToText(&n.Prefix), sqldb.ToText(&n.Gateway),
		sqldb.ToJSON(&n.DNS), &n.NAT, &n.DHCP, sqldb.ToJSON(&o), &n.Identity, sqldb.ToJSON(&n.Allow),
		&n.Uplink, &n.VLAN, &n.VNI)
	n.NetworkOptions, n.ACLs = o.NetworkOptions, o.ACLs
	return n, err
}

// CreateNetwork adds a network. It returns ErrInvalid for one that is not usable, ErrExists if the name or
// the bridge is taken, ErrConflict if its prefix overlaps that of another network and both reach outside or if it is
// the same bridged network as another, and ErrForbidden if its project has as many networks as its quota allows. Every node is notified.
func (s *Store) CreateNetwork(ctx context.Context, n seedbed.Network) (seedbed.Network, error) {
	n = settled(n)
	n.Peers, n.PeerPrefixes, n.ACLs = nil, nil, nil
	if err := n.Check(); err != nil {
		return seedbed.Network{}, err
	}
	if n.Published == nil {
		n.Published = catalogue.Shown(seedbed.Publication{})
	}
	err := s.db.Update(ctx, "create network "+n.Name, func(tx *sqldb.Tx) error {
		in, err := holdNetworks(ctx, tx, seedbed.ProjectOf(n.Name))
		if err != nil {
			return err
		}
		if err := insertNetwork(ctx, tx, n); err != nil {
			return err
		}
		if err := apart(ctx, tx, n); err != nil {
			return err
		}
		if err := access.Networks().Hold(ctx, tx, in); err != nil {
			return err
		}
		if err := catalogue.SetPublication(ctx, tx, seedbed.PublishedNetwork, n.Name, *n.Published); err != nil {
			return err
		}
		return s.touch(ctx, tx)
	})
	if err != nil {
		return seedbed.Network{}, err
	}
	return n, nil
}

// settled returns the network with the defaults of what it leaves open, and what follows from its kind.
func settled(n seedbed.Network) seedbed.Network {
	n.Kind, n.Identity = cmp.Or(n.Kind, seedbed.NetworkNAT), cmp.Or(n.Identity, seedbed.IdentityTap)
	n.NAT, n.DNS = n.Kind == seedbed.NetworkNAT, sqldb.OrEmpty(n.DNS)
	n.Reservations = slices.Clone(n.Reservations)
	slices.SortFunc(n.Reservations, func(a, b seedbed.Reservation) int { return a.Addr.Compare(b.Addr) })
	return n
}

// holdNetworks returns a project, and locks what keeps transactions apart that add networks to any project or
// change what these reach.
func holdNetworks(ctx context.Context, tx *sqldb.Tx, project string) (in seedbed.Project, err error) {
	err = sqldb.InOrder([]string{project, seedbed.DefaultProject}, func(name string) error {
		held, err := access.HoldProject(ctx, tx, name)
		if name == project {
			in = held
		}
		return err
	})
	return in, err
}

func insertNetwork(ctx context.Context, tx *sqldb.Tx, n seedbed.Network) error {
	made, err := sqldb.Affect(ctx, tx,
		`INSERT INTO network (`+networkColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING`,
		n.Name, n.Kind, n.Bridge, n.MAC.String(), sqldb.Text(n.Prefix), sqldb.Text(n.Gateway), sqldb.AsJSON(n.DNS),
		sqldb.Flag(n.NAT), sqldb.Flag(n.DHCP), sqldb.AsJSON(options{n.NetworkOptions, n.ACLs}), n.Identity, sqldb.AsJSON(n.Allow),
		n.Uplink, n.VLAN, n.VNI)
	if err != nil || made == 1 {
		return err
	}
	other, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT name FROM network WHERE bridge = $1 AND name <> $2`, n.Bridge, n.Name)
	switch {
	case err != nil:
		return err
	case other == "":
		return seedbed.Errorf(seedbed.ErrExists, "network %q exists already", n.Name)
	case len(told(ctx, other)) == 0:
		return seedbed.Errorf(seedbed.ErrExists, "bridge %q is taken", n.Bridge)
	}
	return seedbed.Errorf(seedbed.ErrExists, "bridge %q already belongs to network %q", n.Bridge, other)
}

// told returns those of some networks that who asks for the change may learn of.
func told(ctx context.Context, names ...string) []string {
	return catalogue.Told(ctx, names, seedbed.ProjectOf)
}

// apart returns ErrConflict if a network and another overlap and both reach outside, or both are the same VLAN of an
// uplink or the same overlay, or one is bridged to the interface at which the guests of the other are.
func apart(ctx context.Context, tx *sqldb.Tx, n seedbed.Network) error {
	all, err := ReadNetworks(ctx, tx)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.Name != n.Name && n.Kind.OnWire() && n.Kind == other.Kind && n.Uplink == other.Uplink && n.VLAN == other.VLAN {
			return seedbed.Errorf(seedbed.ErrConflict, "network %q is the same VLAN of uplink %s as network %q: use that one",
				n.Name, n.Uplink, other.Name)
		}
		if n.Kind != other.Kind && takesUplink(n) && takesUplink(other) && n.Uplink == other.Uplink {
			return seedbed.Errorf(seedbed.ErrConflict, "network %q would share uplink %s with the %s network %q, and an interface "+
				"that is not a bridge cannot be the port of one and that of guests: choose another uplink, or a VLAN for the bridged network",
				n.Name, n.Uplink, other.Kind, other.Name)
		}
		if other.Name != n.Name && n.VNI != 0 && n.VNI == other.VNI {
			return seedbed.Errorf(seedbed.ErrConflict, "network %q would have the VNI %d of %s: choose another", n.Name, n.VNI,
				otherNetwork(ctx, other, cmp.Or(other.Prefix, other.Prefix6)))
		}
		if other.Name != n.Name && n.FloatingOverlaps(other) {
			return seedbed.Errorf(seedbed.ErrConflict, "network %q would share floating addresses with %s: choose others",
				n.Name, otherNetwork(ctx, other, cmp.Or(other.Prefix, other.Prefix6)))
		}
		if other.Name == n.Name || !n.OverlapsOutside(other) {
			continue
		}
		p, its := n.Prefix, other.Prefix
		if !p.Overlaps(its) {
			p, its = n.Prefix6, other.Prefix6
		}
		without := ""
		if len(n.Peers) > 0 || len(other.Peers) > 0 {
			without = " without peers"
		}
		return seedbed.Errorf(seedbed.ErrConflict, "prefix %s of network %q overlaps that of %s, and both reach other networks, from where "+
			"answers could not be told apart: choose another prefix, or the kind isolated%s", p, n.Name, otherNetwork(ctx, other, its), without)
	}
	return nil
}

// takesUplink reports whether the guests of a network are at the interface of its uplink itself, and not at a VLAN or a function of it.
func takesUplink(n seedbed.Network) bool {
	return n.Kind.OnWire() && n.VLAN == 0 && n.Mode != seedbed.DirectSRIOV
}

// otherNetwork names a network and one of its prefixes as far as who asks for the change may learn of it.
func otherNetwork(ctx context.Context, n seedbed.Network, p netip.Prefix) string {
	if len(told(ctx, n.Name)) > 0 {
		return fmt.Sprintf("network %q (%s)", n.Name, p)
	}
	return "a network of another project"
}

// Network returns the network called name.
func (s *Store) Network(ctx context.Context, name string) (seedbed.Network, error) {
	return sqldb.Cached(s.db, "network", name, func() (n seedbed.Network, err error) {
		err = s.db.View(ctx, "read network", func(tx *sqldb.Tx) error {
			if n, err = ReadNetwork(ctx, tx, name); err != nil {
				return err
			}
			if n, err = withPeers(ctx, tx, n); err != nil {
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
	all, err := sqldb.List(ctx, tx, scanNetwork, `SELECT `+networkColumns+` FROM network ORDER BY name`)
	if err != nil {
		return nil, err
	}
	return all, addPeers(ctx, tx, all)
}

// ChangeNetwork changes what may change of a network while guests use it: all but its name, bridge and
// addresses. change sets it, and may be called more than once. Every node is notified. ChangeNetwork returns
// ErrNotFound, ErrInvalid, or ErrConflict as CreateNetwork does. A network with peers is one that reaches outside, as far as
// addresses are concerned.
func (s *Store) ChangeNetwork(ctx context.Context, name string, change func(*seedbed.Network) error) (n seedbed.Network, err error) {
	err = s.db.Update(ctx, "change network", func(tx *sqldb.Tx) error {
		if n, err = changedNetwork(ctx, tx, name); err != nil {
			return err
		}
		was := n
		if err := change(&n); err != nil {
			return err
		}
		n = settled(n)
		n.Name, n.Bridge, n.MAC, n.Prefix, n.Gateway, n.Published = was.Name, was.Bridge, was.MAC, was.Prefix, was.Gateway, was.Published
		n.Uplink, n.VLAN, n.VNI, n.Mode = was.Uplink, was.VLAN, was.VNI, was.Mode
		if n.Kind != was.Kind && (n.Kind.OnWire() || was.Kind.OnWire()) {
			return seedbed.Errorf(seedbed.ErrInvalid, "network %q is %s and cannot become %s: make another network", n.Name, was.Kind, n.Kind)
		}
		if n.Addressed() != was.Addressed() {
			return changesSource(was)
		}
		if err := cmp.Or(n.Check(), n.CheckACLs()); err != nil {
			return err
		}
		if n.Kind == was.Kind && slices.Equal(n.DNS, was.DNS) && n.DHCP == was.DHCP && n.NetworkOptions.Equal(was.NetworkOptions) &&
			n.Identity == was.Identity && n.Allow == was.Allow && slices.Equal(n.Peers, was.Peers) &&
			slices.EqualFunc(n.ACLs, was.ACLs, seedbed.NetworkACL.Equal) {
			return sqldb.ErrUnchanged
		}
		if err := n.CheckACLParts(was); err != nil {
			return err
		}
		if n.Kind != was.Kind || !slices.Equal(n.Floating, was.Floating) || n.Prefix6 != was.Prefix6 || !slices.Equal(n.Peers, was.Peers) {
			if _, err := holdNetworks(ctx, tx, seedbed.DefaultProject); err != nil {
				return err
			}
			if n, err = setPeers(ctx, tx, was, n); err != nil {
				return err
			}
			if err := apart(ctx, tx, n); err != nil {
				return err
			}
			if err := closedTo(ctx, tx, n); err != nil {
				return err
			}
			if err := lent(ctx, tx, n); err != nil {
				return err
			}
		}
		if n.Prefix6 != was.Prefix6 || n.Range6 != was.Range6 {
			if err := held6(ctx, tx, n, was.Prefix6); err != nil {
				return err
			}
		}
		if n.Router6 != was.Router6 && n.Router6.IsValid() {
			if err := notSecondary(ctx, tx, n.Name, n.Router6); err != nil {
				return err
			}
		}
		if err := s.reservable(ctx, tx, n, was.Reservations); err != nil {
			return err
		}
		err := sqldb.Exec(ctx, tx,
			`UPDATE network SET kind = $1, dns = $2, nat = $3, dhcp = $4, options = $5, identity = $6, allow = $7 WHERE name = $8`,
			n.Kind, sqldb.AsJSON(n.DNS), sqldb.Flag(n.NAT), sqldb.Flag(n.DHCP), sqldb.AsJSON(options{n.NetworkOptions, n.ACLs}), n.Identity,
			sqldb.AsJSON(n.Allow), name)
		if err != nil {
			return err
		}
		if err := fitting(ctx, tx, seedbed.ProjectOf(name), fmt.Sprintf("network %q", name), n.ACLParts()-was.ACLParts()); err != nil {
			return err
		}
		if n, err = withPeers(ctx, tx, n); err != nil {
			return err
		}
		return s.touch(ctx, tx)
	})
	return n, err
}

// changesSource returns the error of a change by which the guests of a network on a wire would have their addresses from elsewhere, or
// no longer.
func changesSource(was seedbed.Network) error {
	if was.Addressed() {
		return seedbed.Errorf(seedbed.ErrInvalid, "network %q cannot lose its only prefix, since its guests would have their addresses from "+
			"elsewhere then: make another network", was.Name)
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "network %q cannot get a prefix, since its guests have their addresses from elsewhere: "+
		"make another network", was.Name)
}

// changedNetwork reads a network with its publication, and locks its row. It returns ErrNotFound.
func changedNetwork(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Network, error) {
	n, err := sqldb.LockOne(ctx, tx, scanNetwork, seedbed.PublishedNetwork.Missing(seedbed.ErrNotFound, name),
		`UPDATE network SET nat = nat WHERE name = $1 RETURNING `+networkColumns, name)
	if err == nil {
		n, err = withPeers(ctx, tx, n)
	}
	if err == nil {
		n.Published, err = networkPublished(ctx, tx, name)
	}
	return n, err
}

// movesNIC is the condition of a job that has not ended and takes a NIC to another network, and withoutNetwork is its input without the
// network $1.
const (
	movesNIC       = `job.kind = 'nic_set' AND job.state IN ('queued', 'running', 'undoing')`
	withoutNetwork = `REPLACE(REPLACE(job.spec, '"network":"' || CAST($1 AS text) || '"', ''), '"from":"' || CAST($1 AS text) || '"', '')`
)

// networkUsers is where the users of a network are found.
var networkUsers = []catalogue.UserKind{
	{What: "instance", Query: `SELECT DISTINCT instance.project, ` + FullName + ` AS full_name FROM nic
		JOIN instance ON instance.id = nic.instance WHERE nic.network = $1
			OR EXISTS (SELECT 1 FROM secondary_address s WHERE s.network = $1 AND s.instance = nic.instance AND s.nic = nic.idx)
			OR nic.instance IN (SELECT job.instance FROM job WHERE ` + movesNIC + ` AND job.spec <> ` + withoutNetwork + `)
		ORDER BY full_name`},
	{What: "profile", Query: `SELECT '', name FROM profile WHERE network = $1
			OR REPLACE(nics, '"network":"' || CAST($1 AS text) || '"', '') <> nics ORDER BY name`},
	{What: "floating address", Query: `SELECT project, addr FROM floating_address WHERE network = $1 ORDER BY addr`},
	{What: "network template", Query: `SELECT DISTINCT '', t.name FROM network_template_net n
		JOIN network_template t ON t.id = n.template WHERE n.vni = $1 ORDER BY t.name`},
}

// DeleteNetwork removes a network that nothing uses. It returns ErrNotFound, ErrInUse with what uses it, or the
// error of a check that the network does not pass. Every node is notified.
func (s *Store) DeleteNetwork(ctx context.Context, name string, checks ...func(seedbed.Network) error) error {
	return s.db.Update(ctx, "delete network", func(tx *sqldb.Tx) error {
		n, err := changedNetwork(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(n, checks); err != nil {
			return err
		}
		var users catalogue.Uses
		if err := users.Read(ctx, tx, networkUsers, name); err != nil {
			return err
		}
		if by := users.String(); by != "" {
			return seedbed.Errorf(seedbed.ErrInUse, "network %q is used by %s: remove or change these first", name, by)
		}
		if err := catalogue.Withdraw(ctx, tx, seedbed.PublishedNetwork, name); err != nil {
			return err
		}
		if err := sqldb.Exec(ctx, tx, `DELETE FROM network WHERE name = $1`, name); err != nil {
			return err
		}
		return s.touch(ctx, tx)
	})
}

// PublishNetwork says to which other projects a network is published, and returns the network. It returns
// ErrNotFound, ErrInvalid for a publication that it cannot have, or the error of a check that the network as
// it was does not pass.
func (s *Store) PublishNetwork(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Network) error,
) (n seedbed.Network, err error) {
	err = s.db.Update(ctx, "publish network "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if n, err = changedNetwork(ctx, tx, name); err != nil {
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
