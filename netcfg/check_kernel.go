package netcfg

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"

	"seedbed"
)

// checkFwmark checks the sysctl that passes the packet mark to the server. It is set, and needed,
// once a network exists.
func checkFwmark(needed bool) seedbed.Check {
	const name = "tcp_fwmark_accept"
	v, err := readSysctl(keyFwmarkAccept)
	switch {
	case err != nil:
		return failed(name, err, "without it the metadata server cannot tell guests apart: use Linux 3.15 or newer")
	case v != 1 && !needed:
		return passed(name, "%s is set to 1 with the first network", sysctlName(keyFwmarkAccept))
	case v != 1:
		return failed(name, fmt.Errorf("%s is %d", sysctlName(keyFwmarkAccept), v),
			"sysctl -w "+sysctlName(keyFwmarkAccept)+"=1, and find out what sets it back")
	}
	return passed(name, "%s is 1", sysctlName(keyFwmarkAccept))
}

// checkNeighbours compares the size of the ARP or ND table, which the whole host shares, with the
// number of guests. Beyond gc_thresh3, lookups of guests fail, and with them metadata. Above
// gc_thresh2, entries are removed while they are in use.
func checkNeighbours(family string, ports int) seedbed.Check {
	name := "neighbour table"
	if family == "net/ipv6" {
		name += ", IPv6"
	}
	soft, err := readSysctl(family + "/neigh/default/gc_thresh2")
	if err == nil {
		var hard int
		if hard, err = readSysctl(family + "/neigh/default/gc_thresh3"); err == nil && (ports > hard/2 || ports > soft) {
			base := strings.ReplaceAll(family, "/", ".") + ".neigh.default.gc_thresh"
			n := max(1024, ports)
			return failed(name, fmt.Errorf("%s2 is %d and %s3 is %d for %d guest ports", base, soft, base, hard, ports),
				fmt.Sprintf("sysctl -w %s1=%d %s2=%d %s3=%d, and keep that in /etc/sysctl.d", base, n, base, 2*n, base, 4*n))
		}
	}
	switch {
	case errors.Is(err, seedbed.ErrNotFound): // it exists only in the first network namespace
		return passed(name, "its size is set outside this network namespace")
	case err != nil:
		return failed(name, err, "")
	}
	return passed(name, "large enough for %s", count(ports, "guest port"))
}

func checkForwarding(name, key string) seedbed.Check {
	v, err := readSysctl(key)
	if err == nil && v != 1 {
		err = fmt.Errorf("%s is %d", sysctlName(key), v)
	}
	if err != nil {
		return failed(name, err, fmt.Sprintf("sysctl -w %s=1: guests reach nothing outside without it", sysctlName(key)))
	}
	return passed(name, "%s is 1", sysctlName(key))
}

// bridgedByNetfilter reports whether br_netfilter passes frames between two ports of a bridge to
// the IPv4 firewall.
func bridgedByNetfilter() bool {
	v, err := readSysctl("net/bridge/bridge-nf-call-iptables")
	return err == nil && v == 1
}

// checkForeignChains looks for other firewalls that drop by default, because an accept in Seedbed's
// rules cannot override them.
func checkForeignChains(bridged bool) seedbed.Check {
	const name = "other firewalls"
	c, err := dialNFT(0)
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
	hint := "allow the managed bridges there, in both directions (for Docker: in chain DOCKER-USER)"
	what := "drops forwarded packets by default"
	if bridged {
		what += ", and br_netfilter sends it what guests of one bridge send each other"
		hint += ", or sysctl -w net.bridge.bridge-nf-call-iptables=0"
	}
	if len(closed) > 0 {
		return failed(name, fmt.Errorf("%s %s", strings.Join(closed, ", "), what), hint)
	}
	return passed(name, "no nftables chain drops forwarded packets by default")
}

// checkTunnelInput looks for another firewall that drops by default what comes to the node, and that knows nothing of the frames of
// overlays that come by the tunnels.
func checkTunnelInput(tunnels string) seedbed.Check {
	const name = "firewall of the node"
	c, err := dialNFT(0)
	if err != nil {
		return failed(name, err, "")
	}
	defer c.CloseLasting()
	chains, err := c.ListChains()
	if err != nil {
		return failed(name, fmt.Errorf("list nftables chains: %w", err), "")
	}
	for _, ch := range chains {
		if ch.Table.Name == tableName || ch.Hooknum == nil || *ch.Hooknum != *nftables.ChainHookInput ||
			ch.Table.Family != nftables.TableFamilyIPv6 && ch.Table.Family != nftables.TableFamilyINet ||
			ch.Policy == nil || *ch.Policy != nftables.ChainPolicyDrop {
			continue
		}
		if ok, err := namesTunnels(c, ch.Table, chains); err != nil {
			return failed(name, fmt.Errorf("list nftables rules of table %s: %w", ch.Table.Name, err), "")
		} else if !ok {
			return failed(name, fmt.Errorf("%s %s drops by default what comes to the node, and no rule names port %d: frames of overlays are "+
				"lost as they leave the tunnels", ch.Table.Name, ch.Name, seedbed.VXLANPort),
				fmt.Sprintf("accept UDP port %d there over IPv6 on %s", seedbed.VXLANPort, tunnels))
		}
	}
	return passed(name, "no nftables chain drops what comes by the tunnels")
}

// namesTunnels reports whether a rule or set of a table names the port of VXLAN, or the interfaces of tunnels.
func namesTunnels(c *nftables.Conn, of *nftables.Table, chains []*nftables.Chain) (bool, error) {
	names := func(b []byte) bool {
		return bytes.Equal(b, be16(seedbed.VXLANPort)) || bytes.HasPrefix(b, []byte(tunnelPrefix))
	}
	for _, ch := range chains {
		if ch.Table.Name != of.Name || ch.Table.Family != of.Family {
			continue
		}
		rules, err := c.GetRules(of, ch)
		if err != nil {
			return false, err
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				switch e := e.(type) {
				case *expr.Cmp:
					if names(e.Data) {
						return true, nil
					}
				case *expr.Match: // of iptables-nft
					if udp, ok := e.Info.(*xt.Udp); ok && udp.DstPorts[0] <= seedbed.VXLANPort && seedbed.VXLANPort <= udp.DstPorts[1] {
						return true, nil
					}
				}
			}
		}
	}
	sets, err := c.GetSets(of)
	if err != nil {
		return false, err
	}
	for _, s := range sets {
		elements, err := c.GetSetElements(s)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(elements, func(e nftables.SetElement) bool { return names(e.Key) }) {
			return true, nil
		}
	}
	return false, nil
}

// checkSwitches checks the sysctls that decide whether a bridge answers its guests. For rp_filter
// and arp_ignore, the kernel uses the greater of the bridge's own value and conf/all.
func checkSwitches(bridge string) (hint string, problem error) {
	for _, s := range []struct {
		name string
		bad  func(all, own int) bool
		fix  func(all int) (iface string, value int)
	}{
		{"rp_filter", func(all, own int) bool { return max(all, own) == 1 }, func(int) (string, int) { return bridge, 2 }},
		{"accept_local", func(all, own int) bool { return all == 0 && own == 0 }, func(int) (string, int) { return bridge, 1 }},
		// 2 requires the guest to be in the subnet of the metadata address; 8 never answers.
		{"arp_ignore", func(all, own int) bool { return max(all, own) == 2 || max(all, own) == 8 }, func(all int) (string, int) {
			if all == 2 || all == 8 {
				return "all", 1
			}
			return bridge, 1
		}},
	} {
		all, err := readSysctl(keyConf("all", s.name))
		if err != nil {
			return "", err
		}
		own, err := readSysctl(keyConf(bridge, s.name))
		if err != nil {
			return "", err
		}
		if s.bad(all, own) {
			iface, value := s.fix(all)
			return fmt.Sprintf("sysctl -w %s=%d", sysctlName(keyConf(iface, s.name)), value),
				fmt.Errorf("%s is in the way of metadata (all %d, %s %d)", s.name, all, bridge, own)
		}
	}
	return "", nil
}
