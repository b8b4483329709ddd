package netcfg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/nftables"

	"seedbed"
)

// Check looks at what the last applied state rests on: that the kernel takes
// our rules, its switches, the bridges, and what else on the host may stop
// guests' traffic. It changes nothing.
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
	checks := []seedbed.Check{checkRules(), checkFwmark(), checkNeighbours(len(p.ports))}
	if p.nat() {
		checks = append(checks, checkForwarding(), checkForeignChains())
	}
	if m.applied == nil { // which bridges there should be is not known yet
		return checks
	}
	return append(checks, checkBridges(p)...)
}

func passed(name, format string, args ...any) seedbed.Check {
	return seedbed.Check{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)}
}

func failed(name string, err error, hint string) seedbed.Check {
	return seedbed.Check{Name: name, Detail: err.Error(), Hint: hint}
}

// checkRules has the kernel build all our rules in tables of another name
// that the same batch removes again, so that nothing of them is ever seen.
func checkRules() seedbed.Check {
	const name = "nftables"
	n := seedbed.Network{Name: "probe", Bridge: "probe", Prefix: candidates()[0], NAT: true}
	n.Gateway = n.Prefix.Addr().Next()
	p := &plan{networks: []seedbed.Network{n}, metadataPort: 8080}
	c, err := dialNFT()
	if err != nil {
		return failed(name, err, "the kernel needs nf_tables")
	}
	defer c.CloseLasting()
	for _, t := range []*table{bridgeTable(p), inetTable(p)} {
		ref := &nftables.Table{Name: tableName + "-probe", Family: t.family}
		if err := t.create(c, ref, "probe"); err != nil {
			return failed(name, err, "")
		}
		c.DelTable(ref)
	}
	if err := c.Flush(); err != nil {
		return failed(name, err, "run it with CAP_NET_ADMIN, on a kernel that has nftables with the bridge and inet families, conntrack and NAT")
	}
	return passed(name, "the kernel takes the rules")
}

func checkFwmark() seedbed.Check {
	const name = "tcp_fwmark_accept"
	v, err := readSysctl(keyFwmarkAccept)
	switch {
	case err != nil:
		return failed(name, err, "without it the metadata server cannot tell guests apart: use Linux 3.15 or newer")
	case v != 1:
		return failed(name, fmt.Errorf("%s is %d", sysctlName(keyFwmarkAccept), v), "it is set to 1 when the first network is applied; nothing else may set it back")
	}
	return passed(name, "%s is 1", sysctlName(keyFwmarkAccept))
}

// checkNeighbours compares the size of the ARP table, which the whole host
// shares, with the number of guests. Beyond it ARP fails, and metadata with it.
func checkNeighbours(ports int) seedbed.Check {
	const name = "neighbour table"
	limit, err := readSysctl("net/ipv4/neigh/default/gc_thresh3")
	switch {
	case errors.Is(err, seedbed.ErrNotFound): // it belongs to the first network namespace alone
		return passed(name, "its size is set outside this network namespace")
	case err != nil:
		return failed(name, err, "")
	case ports > limit/2:
		return failed(name, fmt.Errorf("net.ipv4.neigh.default.gc_thresh3 is %d for %d guest ports", limit, ports),
			fmt.Sprintf("sysctl -w net.ipv4.neigh.default.gc_thresh3=%d", max(4096, 4*ports)))
	}
	return passed(name, "%d entries for %d guest ports", limit, ports)
}

func checkForwarding() seedbed.Check {
	v, err := readSysctl(keyForward)
	if err == nil && v != 1 {
		err = fmt.Errorf("%s is %d", sysctlName(keyForward), v)
	}
	if err != nil {
		return failed("ip_forward", err, "sysctl -w net.ipv4.ip_forward=1: guests reach nothing outside without it")
	}
	return passed("ip_forward", "%s is 1", sysctlName(keyForward))
}

// checkForeignChains looks for other firewalls that drop what they do not
// know: our accept cannot overrule them.
func checkForeignChains() seedbed.Check {
	const name = "other firewalls"
	c, err := dialNFT()
	if err != nil {
		return failed(name, err, "")
	}
	defer c.CloseLasting()
	chains, err := c.ListChains()
	if err != nil {
		return failed(name, fmt.Errorf("list nftables chains: %w", err), "")
	}
	var closed []string
	for _, ch := range chains {
		if ch.Table.Name != tableName && ch.Hooknum != nil && *ch.Hooknum == *nftables.ChainHookForward &&
			(ch.Table.Family == nftables.TableFamilyIPv4 || ch.Table.Family == nftables.TableFamilyINet) &&
			ch.Policy != nil && *ch.Policy == nftables.ChainPolicyDrop {
			closed = append(closed, ch.Table.Name+" "+ch.Name)
		}
	}
	if len(closed) > 0 {
		return failed(name, fmt.Errorf("%s drops forwarded packets by default", strings.Join(closed, ", ")),
			"allow the managed bridges there, in both directions (for Docker: in chain DOCKER-USER)")
	}
	return passed(name, "no nftables chain drops forwarded packets by default")
}

func checkBridges(p *plan) []seedbed.Check {
	const name = "bridges"
	rt, err := dialRoute()
	if err != nil {
		return []seedbed.Check{failed(name, err, "")}
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		return []seedbed.Check{failed(name, err, "")}
	}
	var checks []seedbed.Check
	for _, n := range p.networks {
		checks = append(checks, checkBridge(n, links))
	}
	for _, bridge := range slices.Sorted(maps.Keys(p.foreign)) {
		checks = append(checks, failed("bridge "+bridge, p.foreign[bridge], ""))
	}
	for _, l := range abandoned(p, links) {
		if p.foreign[l.name] != nil {
			continue
		}
		checks = append(checks, failed("bridge "+l.name, fmt.Errorf("it has no network, and %s attached", plural(len(attached(l, links)))),
			"detach them; the bridge then goes away by itself"))
	}
	return checks
}

func plural(n int) string {
	if n == 1 {
		return "1 port is"
	}
	return fmt.Sprintf("%d ports are", n)
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
	all, err := readSysctl(keyRPFilterAll)
	if err != nil {
		return failed(name, err, "")
	}
	own, err := readSysctl(keyConf(n.Bridge, "rp_filter"))
	if err != nil {
		return failed(name, err, "")
	}
	if max(all, own) == 1 {
		return failed(name, fmt.Errorf("rp_filter is strict (all %d, %s %d)", all, n.Bridge, own),
			"sysctl -w "+sysctlName(keyConf(n.Bridge, "rp_filter"))+"=2")
	}
	return passed(name, "up, %d guest interfaces, rp_filter %d", len(attached(l, links)), max(all, own))
}
