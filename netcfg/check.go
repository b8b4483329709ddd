package netcfg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"seedbed"
)

// Check verifies what the last applied state depends on: that the kernel accepts the rules, its
// sysctls, the bridges, and other software on the node that may block guests' traffic. It changes
// nothing.
func (m *Manager) Check(ctx context.Context) []seedbed.Check {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return []seedbed.Check{failed("network", err, "")}
	}
	p := m.applied
	if p == nil {
		p = &plan{metadataPort: 80}
	}
	rules := passed(rulesCheck, "the rules are in force for %s", count(len(p.ports), "guest port"))
	if m.applied == nil {
		rules = checkRules()
	}
	checks := []seedbed.Check{rules, checkFwmark(len(p.networks) > 0), checkNeighbours("net/ipv4", len(p.ports))}
	if hasIPv6("all") {
		checks = append(checks, checkNeighbours("net/ipv6", len(p.ports)))
	}
	if bridged := bridgedByNetfilter(); p.outside() || bridged {
		checks = append(checks, checkForeignChains(bridged))
	}
	if p.tunnelled {
		checks = append(checks, checkTunnelInput(p.tunnelName()))
	}
	if p.outside() {
		checks = append(checks, checkForwarding("ip_forward", keyForward))
	}
	if slices.ContainsFunc(p.networks, seedbed.Network.Routes6) {
		checks = append(checks, checkForwarding("IPv6 forwarding", keyForward6))
	}
	if m.applied == nil { // the bridges are not known yet
		return checks
	}
	if m.unshaped != nil {
		checks = append(checks, failed("bandwidth", m.unshaped, "it is tried again when the network is next applied"))
	}
	if err := p.groups.noRoom(); err != nil {
		checks = append(checks, failed("security groups", err, "move guests to other nodes, or let rules overlap less"))
	}
	return slices.Concat(checks, checkBridges(p), p.checkOverlays(), p.checkTunnels(), p.checkPrefixes6(), m.leftFloating)
}

func passed(name, format string, args ...any) seedbed.Check {
	return seedbed.Check{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)}
}

func failed(name string, err error, hint string) seedbed.Check {
	return seedbed.Check{Name: name, Detail: err.Error(), Hint: hint}
}

const rulesCheck = "nftables"

// checkRules makes the kernel build all rules in tables of another name, which the same batch
// removes again, so that they never take effect.
func checkRules() seedbed.Check {
	const name = rulesCheck
	n := seedbed.Network{Name: "probe", Bridge: "probe", Prefix: candidates()[0], Kind: seedbed.NetworkNAT, NAT: true}
	n.Gateway = n.Prefix.Addr().Next()
	c, err := dialNFT(0)
	if err != nil {
		return failed(name, err, "the kernel needs nf_tables")
	}
	defer c.CloseLasting()
	for _, port := range []uint16{80, 8080} {
		p := &plan{networks: []seedbed.Network{n}, metadataPort: port}
		for _, t := range p.tables() {
			ref := &nftables.Table{Name: tableName + "-probe", Family: t.family}
			if err := t.create(c, ref, "probe", p); err != nil {
				return failed(name, err, "")
			}
			c.DelTable(ref)
		}
	}
	if err := c.Flush(); err != nil {
		return failed(name, err,
			"run it with CAP_NET_ADMIN, on a kernel that has nftables with the bridge, "+
				"inet and arp families, conntrack zones, connlimit, fib and NAT")
	}
	return passed(name, "the kernel accepts the rules")
}

func checkBridges(p *plan) []seedbed.Check {
	const name = "bridges"
	rt, err := dialRoute()
	if err != nil {
		return []seedbed.Check{failed(name, err, "")}
	}
	defer rt.Close()
	links, err := rt.linksOf("bridge") // a node may have thousands of ports
	if err == nil && len(p.abandoned(links)) > 0 {
		links, err = rt.links()
	}
	if err != nil {
		return []seedbed.Check{failed(name, err, "")}
	}
	var checks []seedbed.Check
	for _, n := range p.networks {
		if err := p.cutOff[n.Bridge]; err != nil {
			checks = append(checks, failed("bridge "+n.Bridge, err, ""))
			continue
		}
		checks = append(checks, checkBridge(n, links))
	}
	for _, bridge := range slices.Sorted(maps.Keys(p.foreign)) {
		checks = append(checks, failed("bridge "+bridge, p.foreign[bridge], ""))
	}
	for _, bridge := range slices.Sorted(maps.Keys(p.misread)) {
		n := p.misread[bridge]
		checks = append(checks, failed("network "+n.name, n.err, "update seedbed-metadata on this node"))
	}
	for _, l := range p.abandoned(links) {
		if _, left := p.misread[l.name]; left {
			continue
		}
		if _, mark, _ := l.madeFor(); mark != p.installation {
			checks = append(checks, failed("bridge "+l.name,
				errors.New("it belongs to no network here, and carries the mark of another installation of Seedbed or no mark"),
				"if nothing uses it: ip link del "+l.name))
			continue
		}
		checks = append(checks, failed("bridge "+l.name, fmt.Errorf("it has no network, and %s attached", plural(len(attached(l, links)))),
			"detach them; the bridge is then removed"))
	}
	return checks
}

// checkOverlays reports what keeps guests of other nodes from being reached.
func (p *plan) checkOverlays() (checks []seedbed.Check) {
	if p.strayed {
		err := fmt.Errorf("no interface has the address %s, where other nodes send the frames for this one", p.address)
		checks = append(checks, failed("overlay address", err, "give an interface the address, or name another in network.address"))
	}
	if p.remotes(); p.unreached > 0 {
		checks = append(checks, failed("overlay peers", fmt.Errorf("%s of other nodes cannot be reached from %s: their nodes have no address, "+
			"this one, or one of the other family, or only one of the two encrypts", count(p.unreached, "NIC"), p.address),
			"seedbed node show has the address of each node"))
	}
	node := func(tap [16]byte, network int32, a netip.Addr) {
		if p.passes(network, a) {
			err := fmt.Errorf("the guest has the address %s of a node: nothing that it sends from there passes", a)
			checks = append(checks, failed("address of "+tapName(tap), err,
				"give it another address, and keep those of nodes out of the network (seedbed network set --kept)"))
		}
	}
	for i := range p.ports {
		t := &p.ports[i]
		node(t.tap, t.network, netip.AddrFrom4(t.addr))
		node(t.tap, t.network, p.addr6(t))
	}
	for _, s := range p.secondaries {
		if !s.far() {
			node(s.tap, s.network, s.addr)
		}
	}
	return checks
}

const encryptionCheck = "overlay encryption"

// checkTunnels reports which nodes this one does not reach because only one of the two encrypts.
func (p *plan) checkTunnels() (checks []seedbed.Check) {
	if p.encrypts() && !p.tunnelled || !slices.ContainsFunc(p.networks, overlaid) {
		return nil
	}
	var plain, encrypting, same []string
	for _, a := range p.hosts {
		_, encrypts := p.tunnels[a]
		switch {
		case a == p.address:
		case p.encrypts() && !encrypts:
			plain = append(plain, a.String())
		case !p.encrypts() && encrypts:
			encrypting = append(encrypting, a.String())
		case encrypts && p.encrypts() && !p.inner[a].IsValid():
			same = append(same, a.String())
		}
	}
	add := func(name string, which []string, what, hint string) {
		if len(which) > 0 {
			checks = append(checks, failed(name, fmt.Errorf("%s: %s", what, strings.Join(which, ", ")), hint))
		}
	}
	add(encryptionCheck, plain, "this node encrypts overlays, and sends nothing to the nodes whose key it does not know",
		"set network.overlay.encryption to wireguard there as well, and restart seedbed-metadata and seedbed-worker")
	add(encryptionCheck, encrypting, "this node does not encrypt overlays, and sends nothing to the nodes that do",
		"set network.overlay.encryption to wireguard here as well, and restart seedbed-metadata and seedbed-worker")
	add("overlay keys", same, "nodes have the same key as another, and get nothing",
		"remove overlay.key from the state directory of seedbed-metadata (metadata.state) on each of them but one, and restart it")
	if p.tunnelFault != nil {
		checks = append(checks, failed(encryptionCheck, p.tunnelFault, "it is tried again when the network is next applied"))
	}
	for _, f := range p.forwards {
		if p.encrypts() && f.protocol == unix.IPPROTO_UDP && f.port == p.overlay.Port {
			checks = append(checks, failed(fmt.Sprintf("forward udp:%d to %s", f.port, tapName(f.tap)),
				errors.New("the tunnels to the other nodes take what comes to this port: the guest gets nothing"),
				"choose another port for the forward, or for the tunnels of all nodes (network.overlay.port)"))
		}
	}
	if p.encrypts() && len(checks) == 0 && p.tunnelless == nil {
		checks = append(checks, passed(encryptionCheck, "%s, key %s", count(len(p.tunnelPeers()), "tunnel"), p.overlay.Encryption.Public()))
	}
	return checks
}

func plural(n int) string {
	if n == 1 {
		return "1 port is"
	}
	return fmt.Sprintf("%d ports are", n)
}

// count returns a number and a noun, in the plural unless n is 1.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func checkBridge(n seedbed.Network, links map[string]link) seedbed.Check {
	name := "bridge " + n.Bridge
	l, ok := links[n.Bridge]
	switch {
	case !ok:
		return failed(name, errors.New("it does not exist"), "it is made again when the network is next applied")
	case !l.up:
		return failed(name, errors.New("it is down"), "it is brought up when the network is next applied")
	}
	if hint, err := checkSwitches(n.Bridge); err != nil {
		return failed(name, err, hint)
	}
	v6 := "with IPv6"
	if !hasIPv6(n.Bridge) {
		v6 = "without IPv6: it is switched off there"
	}
	return passed(name, "up, %s attached, %s", count(len(attached(l, links)), "interface"), v6)
}
