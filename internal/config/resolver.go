package config

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"seedbed"
)

// resolvConf is the file that lists the host's resolvers (resolv.conf(5)).
const resolvConf = "/etc/resolv.conf"

// Resolvers returns the DNS servers of a new network: those of the configuration, or else Seedbed's own. On one whose
// addresses come from elsewhere, where Seedbed is none, they are those of the host that others can reach; the result may be
// empty.
func (n Network) Resolvers(addressed bool) ([]netip.Addr, error) {
	switch {
	case len(n.DNS) > 0 && (addressed || !slices.Contains(n.DNS, seedbed.ResolverAddr)):
		return n.DNS, nil
	case addressed:
		return []netip.Addr{seedbed.ResolverAddr}, nil
	}
	f, err := os.Open(resolvConf)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return resolvers(f)
}

func resolvers(r io.Reader) ([]netip.Addr, error) {
	var found []netip.Addr
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(fields[1])
		if err == nil && a.Is4() && !a.IsLoopback() && !a.IsUnspecified() && !slices.Contains(found, a) {
			found = append(found, a)
		}
	}
	return found, lines.Err()
}
