package config

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// resolvConf is the file that lists the host's resolvers (resolv.conf(5)).
const resolvConf = "/etc/resolv.conf"

// Resolvers returns the DNS servers that DHCP offers: those of the configuration, or else the
// host's own, except those that only the host can reach. The result may be empty.
func (n Network) Resolvers() ([]netip.Addr, error) {
	if len(n.DNS) > 0 {
		return n.DNS, nil
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
