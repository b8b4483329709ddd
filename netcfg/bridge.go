package netcfg

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// aliasPrefix begins the alias of every managed bridge. The name of the network follows, and then
// markBefore with the mark of the installation. Of a bridged network or an overlay, uplinkBefore
// follows with the name of the bridge's port to the other nodes.
const (
	aliasPrefix  = "seedbed:"
	markBefore   = "@"
	uplinkBefore = ":"
)

func mtuOf(n seedbed.Network) int { return cmp.Or(n.MTU, seedbed.EthernetMTU) }

func (p *plan) alias(n seedbed.Network) string {
	alias := aliasPrefix + n.Name
	if p.installation != "" || n.Wide() {
		alias += markBefore + p.installation
	}
	return alias
}

// fullAlias returns the alias of n's bridge, with its port to the other nodes.
func (p *plan) fullAlias(n seedbed.Network) string {
	alias := p.alias(n)
	if u, ok := p.uplinks[n.Bridge]; ok {
		alias += uplinkBefore + u.port
	}
	return alias
}

// parseAlias returns the network and the installation that an alias names.
func parseAlias(alias string) (network, installation string) {
	network, mark, _ := strings.Cut(strings.TrimPrefix(alias, aliasPrefix), markBefore)
	installation, _, _ = strings.Cut(mark, uplinkBefore)
	return network, installation
}

// uplinkPort returns the name of the port by which a managed bridge reaches the network that it is bridged to.
func (l link) uplinkPort() string {
	_, mark, _ := strings.Cut(l.alias, markBefore)
	_, port, _ := strings.Cut(mark, uplinkBefore)
	return port
}

// madeFor reports whether l is a bridge that Apply made, and returns its network and installation.
// Bridges of earlier releases have no mark.
func (l link) madeFor() (network, installation string, ok bool) {
	if !strings.HasPrefix(l.alias, aliasPrefix) || l.kind != "bridge" {
		return "", "", false
	}
	network, installation = parseAlias(l.alias)
	return network, installation, true
}

// withoutForeign returns the plan without the networks whose bridge name is taken by a foreign
// bridge or, if the bridge is to be made, whose prefix the node reaches another way or which the node does not reach,
// and the reasons, also why the plan has not had some. addrs are those of ownAddrs.
func (p *plan) withoutForeign(links map[string]link, routes []nodeRoute, addrs []address) (*plan, *LeftOut) {
	left := &LeftOut{Networks: map[string]error{}}
	for _, n := range p.misread {
		left.Networks[n.name] = n.err
	}
	foreign, uplinks, cutOff, ports := map[string]error{}, map[string]uplink{}, map[string]error{}, map[string]string{}
	under := p.underlay(links, addrs)
	out := p.only(func(n seedbed.Network) bool {
		l, ok := links[n.Bridge]
		err := adoptable(l, n)
		if !ok {
			err = unrouted(n, routes)
		}
		if err == nil && n.Wide() {
			var u uplink
			var problem error
			if n.VNI != 0 {
				u, problem = p.overlayOf(n, under)
			} else {
				u, problem = p.uplinkOf(n, links, addrs)
			}
			if other, used := ports[u.port]; used && problem == nil {
				problem = seedbed.Errorf(seedbed.ErrConflict, "interface %s, the uplink of network %s, is that of network %s: choose a VLAN, "+
					"or make a bridge that has the interface, and name that one", u.on, n.Name, other)
			}
			switch {
			case problem == nil:
				uplinks[n.Bridge], ports[u.port] = u, n.Name
			case n.VNI != 0:
				cutOff[n.Bridge] = problem
			case ok:
				// Its guests still reach each other and their metadata.
				uplinks[n.Bridge], cutOff[n.Bridge] = uplink{port: l.uplinkPort()}, problem
			default:
				err = problem
			}
		}
		if err != nil {
			left.Networks[n.Name], foreign[n.Bridge] = err, err
		}
		return err == nil
	})
	out.foreign, out.closed, out.uplinks, out.cutOff = foreign, nil, uplinks, cutOff
	out.strayed = under.index == 0 && p.address.IsValid() && slices.ContainsFunc(out.networks, overlaid)
	return out, left
}

// adoptable returns nil if bridge l was made for n. A bridge with n's MAC and without an alias is
// what a crash between setting the two leaves. The MAC comes from the database, so a bridge with
// n's alias and another MAC was made from another database.
func adoptable(l link, n seedbed.Network) error {
	network, _, ours := l.madeFor()
	switch {
	case l.kind != "bridge":
		return seedbed.Errorf(seedbed.ErrConflict,
			"interface %s exists and is not a bridge: choose another bridge name for network %s or remove the interface", l.name, n.Name)
	case l.mac == n.MAC && (l.alias == "" || ours && network == n.Name):
		return nil
	case ours && network == n.Name:
		return seedbed.Errorf(seedbed.ErrConflict,
			"bridge %s has MAC %s, and network %s has %s: it belongs to another installation of Seedbed on this host; "+
				"run that one's seedbed-metadata --cleanup, or choose another bridge name for network %s",
			l.name, l.mac, n.Name, n.MAC, n.Name)
	case ours:
		return seedbed.Errorf(seedbed.ErrConflict,
			"bridge %s belongs to network %s: choose another bridge name for network %s", l.name, network, n.Name)
	}
	return seedbed.Errorf(seedbed.ErrConflict,
		"bridge %s exists and was not made by Seedbed: choose another bridge name for network %s or remove the bridge", l.name, n.Name)
}

// retire removes the bridges of this installation that no longer have a network. A bridge that
// still has ports stays, is closed by the rules, and is logged once. So is a bridge of another or
// an unknown installation.
func (m *Manager) retire(rt *route, p *plan, links map[string]link) error {
	for _, l := range p.abandoned(links) {
		if ports := attached(l, links); len(ports) > 0 {
			p.closed = append(p.closed, l.name)
			if port := l.uplinkPort(); port != "" {
				u := uplink{port: port}
				if links[port].kind == madeVXLAN {
					u.made = madeVXLAN // and nobody is its peer
				}
				p.uplinks[l.name] = u
			}
			m.once("left "+l.name, "bridge without a network is left, because ports are attached", "bridge", l.name, "ports", ports)
			continue
		}
		if _, mark, _ := l.madeFor(); mark != p.installation {
			continue // its guests may be off for now
		}
		if err := rt.deleteLink(l); err != nil {
			return fmt.Errorf("remove bridge %s: %w", l.name, err)
		}
		delete(links, l.name)
		delete(m.told, "left "+l.name)
		m.log.Info("bridge removed", "bridge", l.name)
	}
	return m.retireUplinks(rt, p, links, false)
}

// once logs a warning unless it was logged before. what identifies it.
func (m *Manager) once(what, msg string, args ...any) {
	if !m.told[what] {
		m.told[what] = true
		m.log.Warn(msg, args...)
	}
}

// abandoned returns the bridges of Seedbed that do not belong to a network of the plan, by name.
func (p *plan) abandoned(links map[string]link) []link {
	networks := make(map[string]string, len(p.networks)) // by their bridges
	for _, n := range p.networks {
		networks[n.Bridge] = n.Name
	}
	var out []link
	for _, l := range links {
		if network, _, ours := l.madeFor(); ours && p.foreign[l.name] == nil && networks[l.name] != network {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b link) int { return strings.Compare(a.name, b.name) })
	return out
}

// attached returns the names of the bridge's ports but that to its uplink.
func attached(bridge link, links map[string]link) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if links[name].master == bridge.index && name != bridge.uplinkPort() {
			out = append(out, name)
		}
	}
	return out
}

// ensureBridges makes the bridges of the plan exist as they should, and returns what went wrong with each. links are
// those before. No other network waits for one that does not reach the network that it is attached to: it is cut off,
// or added to left if that is known before there is a bridge.
func (m *Manager) ensureBridges(rt *route, p *plan, links map[string]link, left *LeftOut) (problems []error) {
	failed := func(n seedbed.Network, err error) {
		problems = append(problems, fmt.Errorf("network %s: %w", n.Name, err))
	}
	maps.DeleteFunc(m.reached, func(bridge string, _ reached) bool { return p.uplinks[bridge].made != madeVXLAN })
	fresh, made := map[string]bool{}, false
	for _, n := range p.networks {
		_, there := links[n.Bridge]
		if u, ok := p.uplinks[n.Bridge]; ok {
			added, err := rt.makeUplink(n, u, links)
			made = made || added
			if err != nil {
				p.cutOff[n.Bridge] = err
				if !there && n.VNI == 0 {
					left.Networks[n.Name] = err
				}
			}
		}
		if there || left.Networks[n.Name] != nil {
			continue
		}
		if err := rt.createBridge(n.Bridge, n.MAC, p.fullAlias(n)); err != nil {
			failed(n, fmt.Errorf("create bridge %s: %w", n.Bridge, err))
			continue
		}
		fresh[n.Bridge], made = true, true
		m.log.Info("bridge created", "network", n.Name, "bridge", n.Bridge, "mac", n.MAC)
	}
	now := links
	if made {
		var err error
		if now, err = rt.links(); err != nil {
			return append(problems, err)
		}
	}
	addrs, err := rt.addrsByLink()
	if err != nil {
		return append(problems, err)
	}
	filtered, err := readSysctl(keyRPFilterAll)
	if err != nil {
		return append(problems, err)
	}
	for _, n := range p.networks {
		l, ok := now[n.Bridge]
		if !ok {
			if fresh[n.Bridge] {
				failed(n, seedbed.Errorf(seedbed.ErrConflict, "bridge %s vanished while it was made", n.Bridge))
			}
			continue
		}
		err := m.ensureBridge(rt, n, l, p, addrs[l.index], fresh[n.Bridge], filtered)
		if err == nil && !l.up {
			err = m.open(rt, l, p, links)
		}
		if err != nil {
			failed(n, err)
			continue
		}
		m.ensureWayOut(rt, n, l, p, now)
		if fromElsewhere(n) && hasIPv6(n.Bridge) {
			if err := rt.ensureAnswerRoute(l); err != nil {
				m.once("no route "+n.Bridge, noAnswers, "bridge", n.Bridge, "err", err)
			}
		}
		if err := p.cutOff[n.Bridge]; err != nil {
			m.once(err.Error(), "a network does not reach beyond this node; what is on the node works", "network", n.Name, "err", err)
		}
	}
	return problems
}

// open brings a bridge up that has all else. The guests' interfaces are attached before, since one that is down is taken for one
// that an earlier process did not finish. links are those before.
func (m *Manager) open(rt *route, l link, p *plan, links map[string]link) error {
	if err := rt.reattach(l, p, links); err != nil {
		return err
	}
	if err := rt.setUp(l); err != nil {
		return fmt.Errorf("bring %s up: %w", l.name, err)
	}
	return nil
}

// ensureBridge gives the bridge l of n its alias, addresses and switches. A guest's frame to a
// link-local group address passes the bridge table, so the bridge must not learn its sender: it would send frames for
// another guest's MAC, or for any number of MACs, to that port. filtered is the rp_filter of all interfaces.
func (m *Manager) ensureBridge(
	rt *route, n seedbed.Network, l link, p *plan, addrs []address, fresh bool, filtered int,
) error {
	if want := p.fullAlias(n); l.alias != want {
		if err := rt.setAlias(l, want); err != nil {
			return fmt.Errorf("set alias of %s: %w", n.Bridge, err)
		}
	}
	if l.learnsPast {
		if err := rt.setLearnNothingPast(l); err != nil {
			return fmt.Errorf("set no_linklocal_learn of %s: %w", n.Bridge, err)
		}
	}
	// A bridge whose MTU was never set has the smallest of its ports.
	if want := mtuOf(n); l.mtu != want || fresh && n.Wide() {
		if err := rt.setMTU(l, want); err != nil {
			return fmt.Errorf("set MTU %d of %s: %w", want, n.Bridge, err)
		}
	}
	// Set the sysctls first: some affect how addresses behave.
	if err := m.bridgeSysctls(n, l, fresh, filtered); err != nil {
		return err
	}
	v6 := l.conf6.has(bridgeSysctl{"disable_ipv6", 26, 0}) || hasIPv6(n.Bridge)
	if !v6 {
		m.once("no IPv6 "+n.Bridge, "IPv6 is switched off on a bridge; its guests are served only over IPv4", "bridge", n.Bridge)
	}
	return rt.ensureAddrs(l, n, v6, addrs)
}

// answerRules makes the rules of answers be those of the plan. Those of bridges of another installation among links stay.
func (m *Manager) answerRules(rt *route, p *plan, links map[string]link) {
	var bridges []string
	for _, n := range p.networks {
		if fromElsewhere(n) && hasIPv6(n.Bridge) {
			bridges = append(bridges, n.Bridge)
		}
	}
	if err := rt.ensureAnswerRules(bridges, func(bridge string) bool {
		_, mark, made := links[bridge].madeFor()
		return made && mark != p.installation
	}); err != nil {
		m.once(err.Error(), noAnswers, "err", err)
	}
}

const noAnswers = "guests whose IPv6 addresses come from elsewhere do not reach fd00:ec2::254"

// reattach attaches the interfaces of guests again that lost their bridge when it was removed. It
// changes only interfaces of links, which existed before, so as not to race with a hypervisor
// that is just starting a guest.
func (r *route) reattach(bridge link, p *plan, links map[string]link) error {
	for i := range p.ports {
		t := &p.ports[i]
		l, ok := links[t.name()]
		if !ok || p.networks[t.network].Bridge != bridge.name || l.master != 0 {
			continue
		}
		if err := r.setMaster(l, bridge.index); err != nil {
			return fmt.Errorf("put %s back on %s: %w", t.name(), bridge.name, err)
		}
	}
	return nil
}
