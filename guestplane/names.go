package guestplane

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"

	"seedbed"
)

// names are the names of the guests of networks whose resolver is Seedbed's, by network. It is safe for concurrent use.
type names struct {
	mu sync.RWMutex
	of map[string]*zone
}

// zone has the names of one network.
type zone struct {
	addrs map[string][]netip.Addr
	names map[netip.Addr]string
	// others are the other networks of guests that have several.
	others map[netip.Addr][]string
	// projects counts the names of guests of other projects than the network's.
	projects map[string]int
}

// zoneOf is dns.Names of one network.
type zoneOf struct {
	names   *names
	network string
}

func (z zoneOf) Addrs(name string) ([]netip.Addr, bool) {
	z.names.mu.RLock()
	defer z.names.mu.RUnlock()
	of := z.names.of[z.network]
	if of == nil {
		return nil, false
	}
	if addrs, ok := of.addrs[name]; ok {
		return slices.Clone(addrs), true
	}
	return nil, of.projects[name] > 0
}

func (z zoneOf) Name(a netip.Addr) (string, bool) {
	z.names.mu.RLock()
	defer z.names.mu.RUnlock()
	of := z.names.of[z.network]
	if of == nil {
		return "", false
	}
	name, ok := of.names[a]
	return name, ok
}

// networksOf returns the other networks of the guest with an address in a network.
func (n *names) networksOf(network string, a netip.Addr) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if z := n.of[network]; z != nil {
		return z.others[a]
	}
	return nil
}

// replace makes the names those of a whole state.
func (n *names) replace(state seedbed.GuestPlaneState) {
	all := map[string]*zone{}
	for _, network := range state.Networks {
		if network.Resolves() {
			all[network.Name] = &zone{addrs: map[string][]netip.Addr{}, names: map[netip.Addr]string{},
				others: map[netip.Addr][]string{}, projects: map[string]int{}}
		}
	}
	next := names{of: all}
	if len(all) > 0 {
		for _, g := range state.Guests {
			next.add(g)
		}
		for g := range peers(state) {
			next.add(g)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of = all
}

// change takes the guests and peers that after names as changed from before to after.
func (n *names) change(before, after seedbed.GuestPlaneState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.of) == 0 {
		return
	}
	ids := touched(after)
	for _, id := range ids { // first all that go: another guest may take a name or an address
		if g, ok := anywhere(before, id); ok {
			n.remove(g)
		}
	}
	for _, id := range ids {
		if g, ok := anywhere(after, id); ok {
			n.add(g)
		}
	}
}

// anywhere returns a guest of this node, or a peer.
func anywhere(state seedbed.GuestPlaneState, id seedbed.InstanceID) (seedbed.Guest, bool) {
	if g, ok := state.Guest(id); ok {
		return g, true
	}
	return peerOf(state, id)
}

func (n *names) add(g seedbed.Guest) {
	for _, nic := range g.NICs {
		z := n.of[nic.Network]
		if z == nil || !nic.Addr.IsValid() {
			continue
		}
		name, project := nameIn(g, nic.Network)
		z.addrs[name] = append(z.addrs[name], nic.Addr)
		z.names[nic.Addr] = name
		if others := n.others(g, nic.Network); len(others) > 0 {
			z.others[nic.Addr] = others
		}
		if project != "" {
			z.projects[project]++
		}
	}
}

func (n *names) remove(g seedbed.Guest) {
	for _, nic := range g.NICs {
		z := n.of[nic.Network]
		if z == nil || !nic.Addr.IsValid() {
			continue
		}
		name, project := nameIn(g, nic.Network)
		if z.addrs[name] = slices.DeleteFunc(z.addrs[name], func(a netip.Addr) bool { return a == nic.Addr }); len(z.addrs[name]) == 0 {
			delete(z.addrs, name)
		}
		if z.names[nic.Addr] == name {
			delete(z.names, nic.Addr)
			delete(z.others, nic.Addr)
		}
		if project != "" {
			if z.projects[project]--; z.projects[project] == 0 {
				delete(z.projects, project)
			}
		}
	}
}

// others returns the networks of a guest with names, but one.
func (n *names) others(g seedbed.Guest, but string) (all []string) {
	for _, nic := range g.NICs {
		if nic.Network != but && n.of[nic.Network] != nil && nic.Addr.IsValid() && !slices.Contains(all, nic.Network) {
			all = append(all, nic.Network)
		}
	}
	return all
}

// nameIn returns the name of a guest in a network, without the domain: its own, and that of its project if the network is
// another's.
func nameIn(g seedbed.Guest, network string) (name, project string) {
	name = seedbed.DNSLabel(g.Name)
	if project = cmp.Or(g.Project, seedbed.DefaultProject); project == seedbed.ProjectOf(network) {
		return name, ""
	}
	project = seedbed.DNSLabel(project)
	return name + "." + project, project
}
