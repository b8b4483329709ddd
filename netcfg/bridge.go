package netcfg

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// aliasPrefix begins the alias of every bridge of ours; the network's name follows.
const aliasPrefix = "seedbed:"

func alias(n seedbed.Network) string { return aliasPrefix + n.Name }

// ours tells whether l is a bridge that some Apply made.
func (l link) ours() bool { return l.kind == "bridge" && strings.HasPrefix(l.alias, aliasPrefix) }

// dropForeign takes the networks out of the plan whose bridge name is somebody
// else's, with one ErrConflict for each, and remembers why.
func (p *plan) dropForeign(links map[string]link) []error {
	var conflicts []error
	p.foreign = map[string]error{}
	p.only(func(n seedbed.Network) bool {
		l, ok := links[n.Bridge]
		if !ok {
			return true
		}
		err := adoptable(l, n)
		if err != nil {
			conflicts, p.foreign[n.Bridge] = append(conflicts, err), err
		}
		return err == nil
	})
	return conflicts
}

// adoptable is nil for a bridge that was made for n. One that has n's MAC and
// no alias yet is what a crash between the two leaves. The MAC comes from the
// database, so that one with n's alias and another MAC was made from another one.
func adoptable(l link, n seedbed.Network) error {
	switch {
	case l.kind != "bridge":
		return seedbed.Errorf(seedbed.ErrConflict,
			"interface %s exists and is not a bridge: choose another bridge name for network %s or remove the interface", l.name, n.Name)
	case l.mac == n.MAC && (l.alias == alias(n) || l.alias == ""):
		return nil
	case l.alias == alias(n):
		return seedbed.Errorf(seedbed.ErrConflict,
			"bridge %s has MAC %s, and network %s has %s: it belongs to another installation of Seedbed on this host; run that one's seedbed-metadata --cleanup, or choose another bridge name for network %s",
			l.name, l.mac, n.Name, n.MAC, n.Name)
	case l.ours():
		return seedbed.Errorf(seedbed.ErrConflict,
			"bridge %s belongs to network %s: choose another bridge name for network %s", l.name, strings.TrimPrefix(l.alias, aliasPrefix), n.Name)
	}
	return seedbed.Errorf(seedbed.ErrConflict,
		"bridge %s exists and was not made by Seedbed: choose another bridge name for network %s or remove the bridge", l.name, n.Name)
}

// retire removes the bridges of ours that have no network any more. One that
// still has ports stays, is closed by the rules, and is logged once.
func (m *Manager) retire(rt *route, p *plan, links map[string]link) error {
	for _, l := range abandoned(p, links) {
		if ports := attached(l, links); len(ports) > 0 {
			p.closed = append(p.closed, l.name)
			if !m.left[l.name] {
				m.log.Warn("bridge without a network is left, because ports are attached", "bridge", l.name, "ports", ports)
				m.left[l.name] = true
			}
			continue
		}
		if err := rt.deleteLink(l); err != nil {
			return fmt.Errorf("remove bridge %s: %w", l.name, err)
		}
		delete(links, l.name)
		delete(m.left, l.name)
		m.log.Info("bridge removed", "bridge", l.name)
	}
	return nil
}

// abandoned are the bridges of ours that no network of the plan has, by name.
func abandoned(p *plan, links map[string]link) []link {
	var out []link
	for _, name := range slices.Sorted(maps.Keys(links)) {
		l := links[name]
		if l.ours() && !slices.ContainsFunc(p.networks, func(n seedbed.Network) bool { return n.Bridge == name && alias(n) == l.alias }) {
			out = append(out, l)
		}
	}
	return out
}

// attached are the names of the bridge's ports.
func attached(bridge link, links map[string]link) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if links[name].master == bridge.index {
			out = append(out, name)
		}
	}
	return out
}

// ensureBridge makes n's bridge exist with its MAC, alias, addresses and
// switches, and brings it up last.
func (m *Manager) ensureBridge(rt *route, n seedbed.Network, p *plan, links map[string]link) error {
	l, ok := links[n.Bridge]
	if !ok {
		var err error
		if l, err = rt.newBridge(n); err != nil {
			return fmt.Errorf("create bridge %s: %w", n.Bridge, err)
		}
		m.log.Info("bridge created", "network", n.Name, "bridge", n.Bridge, "mac", n.MAC)
	}
	if l.alias != alias(n) {
		if err := rt.setAlias(l, alias(n)); err != nil {
			return fmt.Errorf("set alias of %s: %w", n.Bridge, err)
		}
	}
	if err := rt.ensureAddrs(l, n); err != nil {
		return err
	}
	if err := bridgeSysctls(n.Bridge); err != nil {
		return err
	}
	if !l.up {
		if err := rt.setUp(l); err != nil {
			return fmt.Errorf("bring %s up: %w", n.Bridge, err)
		}
	}
	if ok {
		return nil
	}
	return rt.reattach(l, p, links)
}

func (r *route) newBridge(n seedbed.Network) (link, error) {
	if err := r.createBridge(n.Bridge, n.MAC); err != nil {
		return link{}, err
	}
	links, err := r.links()
	if err != nil {
		return link{}, err
	}
	l, ok := links[n.Bridge]
	if !ok {
		return link{}, seedbed.Errorf(seedbed.ErrConflict, "bridge %s vanished while it was made", n.Bridge)
	}
	return l, nil
}

// reattach puts guests' interfaces back that lost their bridge when somebody
// removed it. Only those that existed before the new bridge are touched, so
// that a hypervisor that is just starting a guest is not raced.
func (r *route) reattach(bridge link, p *plan, links map[string]link) error {
	for _, t := range p.ports {
		l, ok := links[t.Tap]
		if !ok || t.Bridge != bridge.name || l.master != 0 {
			continue
		}
		if err := r.setMaster(l, bridge.index); err != nil {
			return fmt.Errorf("put %s back on %s: %w", t.Tap, bridge.name, err)
		}
	}
	return nil
}
