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

// zone has the names of one network. Two guests may have a name or an address for a moment: the node learns later of
// peers than of its own guests, so one that is gone may be known beside the next that has its address.
type zone struct {
	network seedbed.Network
	// project is the label of the project that the network is of.
	project string
	names   map[string][]named
	addrs   map[netip.Addr][]named
	// projects counts the names of guests of other projects than the network's.
	projects map[string]int
}

// named is a guest's NIC in a network.
type named struct {
	id   seedbed.InstanceID
	name string
	// addrs are its addresses in the network: an IPv4 address, an IPv6 address or both.
	addrs []netip.Addr
	// others are the other networks of a guest of this node that has several.
	others []string
	peer   bool
}

// holder returns who has an address: a guest of this node rather than a peer.
func (z *zone) holder(a netip.Addr) (named, bool) {
	all := z.addrs[a]
	if i := slices.IndexFunc(all, func(n named) bool { return !n.peer }); i >= 0 {
		return all[i], true
	}
	if len(all) == 0 {
		return named{}, false
	}
	return all[0], true
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
	if addrs, ok := of.addrsOf(name); ok {
		return addrs, true
	}
	return nil, of.projects[name] > 0
}

func (z zoneOf) Host(name, project string) ([]netip.Addr, bool) {
	z.names.mu.RLock()
	defer z.names.mu.RUnlock()
	of := z.names.of[z.network]
	switch {
	case of == nil:
		return nil, false
	case project == of.project:
		return of.addrsOf(name)
	}
	return of.addrsOf(name + "." + project)
}

// addrsOf returns the addresses of a guest.
func (z *zone) addrsOf(name string) (addrs []netip.Addr, ok bool) {
	for _, n := range z.names[name] {
		for _, a := range n.addrs {
			if !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
	}
	return addrs, len(addrs) > 0
}

func (z zoneOf) Name(a netip.Addr) (string, bool) {
	z.names.mu.RLock()
	defer z.names.mu.RUnlock()
	of := z.names.of[z.network]
	if of == nil {
		return "", false
	}
	n, ok := of.holder(a)
	return n.name, ok
}

// networksOf returns the other networks of the guest with an address in a network.
func (n *names) networksOf(network string, a netip.Addr) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if z := n.of[network]; z != nil {
		of, _ := z.holder(a)
		return of.others
	}
	return nil
}

// replace makes the names those of a whole state.
func (n *names) replace(state seedbed.GuestPlaneState) {
	all := map[string]*zone{}
	for _, network := range state.Networks {
		if network.Resolves() {
			all[network.Name] = &zone{network: network, project: seedbed.DNSLabel(seedbed.ProjectOf(network.Name)), names: map[string][]named{},
				addrs: map[netip.Addr][]named{}, projects: map[string]int{}}
		}
	}
	next := names{of: all}
	if len(all) > 0 {
		for _, g := range state.Guests {
			next.add(g, false)
		}
		for g := range peers(state) {
			next.add(g, true)
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
		if g, _, ok := anywhere(before, id); ok {
			n.remove(g)
		}
	}
	for _, id := range ids {
		if g, peer, ok := anywhere(after, id); ok {
			n.add(g, peer)
		}
	}
}

// anywhere returns a guest of this node, or a peer.
func anywhere(state seedbed.GuestPlaneState, id seedbed.InstanceID) (g seedbed.Guest, peer, ok bool) {
	if g, ok := state.Guest(id); ok {
		return g, false, true
	}
	g, ok = peerOf(state, id)
	return g, true, ok
}

func (n *names) add(g seedbed.Guest, peer bool) {
	for _, nic := range g.Shown() {
		z := n.of[nic.Network]
		if z == nil {
			continue
		}
		name, project := nameIn(g, nic.Network)
		one := named{id: g.ID, name: name, addrs: z.addrsIn(nic), peer: peer}
		if !peer {
			one.others = n.others(g, nic.Network)
		}
		z.names[name] = append(z.names[name], one)
		for _, a := range one.addrs {
			z.addrs[a] = append(z.addrs[a], one)
		}
		if project != "" {
			z.projects[project]++
		}
	}
}

func (n *names) remove(g seedbed.Guest) {
	for _, nic := range g.Shown() {
		z := n.of[nic.Network]
		if z == nil {
			continue
		}
		name, project := nameIn(g, nic.Network)
		without(z.names, name, g.ID)
		for _, a := range z.addrsIn(nic) {
			without(z.addrs, a, g.ID)
		}
		if project != "" {
			if z.projects[project]--; z.projects[project] == 0 {
				delete(z.projects, project)
			}
		}
	}
}

// addrsIn returns the addresses of a NIC in the network.
func (z *zone) addrsIn(nic seedbed.GuestNIC) []netip.Addr {
	return slices.DeleteFunc([]netip.Addr{nic.Addr, z.network.Addr6(nic.MAC)}, func(a netip.Addr) bool { return !a.IsValid() })
}

// without removes what a guest has under a key.
func without[K comparable](from map[K][]named, key K, id seedbed.InstanceID) {
	if from[key] = slices.DeleteFunc(from[key], func(n named) bool { return n.id == id }); len(from[key]) == 0 {
		delete(from, key)
	}
}

// others returns the networks of a guest with names, but one.
func (n *names) others(g seedbed.Guest, but string) (all []string) {
	for _, nic := range g.Shown() {
		if nic.Network != but && n.of[nic.Network] != nil && !slices.Contains(all, nic.Network) {
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
