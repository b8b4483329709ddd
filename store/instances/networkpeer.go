package instances

import (
	"context"
	"net/netip"
	"slices"

	"seedbed"
	"seedbed/store/sqldb"
)

// withPeers returns a network with its peers and their prefixes.
func withPeers(ctx context.Context, tx *sqldb.Tx, n seedbed.Network) (seedbed.Network, error) {
	peers, err := sqldb.List(ctx, tx, scanNetwork, `SELECT `+networkColumns+` FROM network WHERE name IN
		(SELECT other FROM network_peer WHERE network = $1 UNION SELECT network FROM network_peer WHERE other = $1) ORDER BY name`, n.Name)
	n.Peers, n.PeerPrefixes = nil, nil
	for _, p := range peers {
		addPeer(&n, p)
	}
	return n, err
}

// addPeer adds a peer to a network. Peers are added in the order of their names.
func addPeer(n *seedbed.Network, peer seedbed.Network) {
	n.Peers = append(n.Peers, peer.Name)
	for _, p := range []netip.Prefix{peer.Prefix, peer.Prefix6} {
		if p.IsValid() {
			n.PeerPrefixes = append(n.PeerPrefixes, p)
		}
	}
}

// addPeers adds the peers to all networks, which are sorted by name.
func addPeers(ctx context.Context, tx *sqldb.Tx, all []seedbed.Network) error {
	pairs, err := sqldb.List(ctx, tx, func(r sqldb.Row) (pair [2]string, err error) {
		err = r.Scan(&pair[0], &pair[1])
		return pair, err
	}, `SELECT network, other FROM network_peer UNION SELECT other, network FROM network_peer ORDER BY 1, 2`)
	if err != nil || len(pairs) == 0 {
		return err
	}
	at := map[string]int{}
	for i, n := range all {
		at[n.Name] = i
	}
	for _, pair := range pairs {
		n, ok := at[pair[0]]
		peer, there := at[pair[1]]
		if ok && there {
			addPeer(&all[n], all[peer])
		}
	}
	return nil
}

// setPeers writes what a change makes of the peers of a network, which were those of was before, and returns it with all that it
// has then: another change of a peer may have come between. The caller has locked what keeps networks apart. It returns
// ErrInvalid for a peer that does not exist or with which it cannot be peered.
func setPeers(ctx context.Context, tx *sqldb.Tx, was, n seedbed.Network) (seedbed.Network, error) {
	for _, name := range was.Peers {
		if slices.Contains(n.Peers, name) {
			continue
		}
		if err := sqldb.Exec(ctx, tx, `DELETE FROM network_peer WHERE network = $1 AND other = $2`,
			min(n.Name, name), max(n.Name, name)); err != nil {
			return n, err
		}
	}
	for _, name := range n.Peers {
		if slices.Contains(was.Peers, name) && (n.Prefix6.IsValid() || !was.Prefix6.IsValid()) {
			continue
		}
		if err := peer(ctx, tx, n, name); err != nil {
			return n, err
		}
	}
	n, err := withPeers(ctx, tx, n)
	if err != nil {
		return n, err
	}
	return n, n.Check()
}

// peer peers a network with another.
func peer(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, name string) error {
	other, err := sqldb.One(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrInvalid, "network %q does not exist", sqldb.Clean(name, 80)),
		`SELECT `+networkColumns+` FROM network WHERE name = $1`, name)
	if err != nil {
		return err
	}
	if err := sqldb.Exec(ctx, tx, `INSERT INTO network_peer (network, other) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		min(n.Name, name), max(n.Name, name)); err != nil {
		return err
	}
	if other, err = withPeers(ctx, tx, other); err != nil {
		return err
	}
	if err := n.CanPeer(other); err != nil {
		return err
	}
	return apart(ctx, tx, other)
}
