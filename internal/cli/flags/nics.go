package flags

import (
	"net/netip"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/internal/cli"
)

// NICs parses the NICs that the flag --nic gives.
func NICs(texts []string) (any, error) { return ParseNICs("--nic ", texts) }

// ParseNICs parses NICs such as network=lab,ip=10.9.0.5. of is what messages call what gave them.
func ParseNICs(of string, texts []string) ([]seedbed.NICRequest, error) {
	nics := []seedbed.NICRequest{}
	for _, text := range texts {
		var n seedbed.NICRequest
		seen := map[string]bool{}
		for part := range strings.SplitSeq(text, ",") {
			key, value, ok := strings.Cut(part, "=")
			if !ok || value == "" || seen[key] {
				return nil, cli.Usagef(of+"%q: expected network=NETWORK, ip=ADDRESS, secondary=ADDRESS+ADDRESS or secondary=COUNT, "+
					"secondary6=COUNT, mac=ADDRESS, in=RATE and out=RATE, each at most once, and group=GROUP, separated by commas", text)
			}
			seen[key] = key != "group"
			var err error
			switch key {
			case "network":
				n.Network = value
			case "ip":
				n.Addr, err = netip.ParseAddr(value)
			case "secondary":
				if n.SecondaryCount, err = strconv.Atoi(value); err != nil {
					n.Secondary, err = parseAddrs(value)
				}
			case "secondary6":
				n.SecondaryCount6, err = strconv.Atoi(value)
			case "mac":
				n.MAC, err = seedbed.ParseMAC(value)
			case "in":
				n.BandwidthIn, err = seedbed.ParseBitRate(value)
			case "out":
				n.BandwidthOut, err = seedbed.ParseBitRate(value)
			case "group":
				n.Groups = append(n.Groups, value)
			default:
				return nil, cli.Usagef(of+"%q: the key %q is unknown: expected network, ip, secondary, secondary6, mac, in, out or group", text, key)
			}
			switch {
			case err != nil && key == "secondary6":
				return nil, cli.Usagef(of+"%q: secondary6 is not a count: name IPv6 addresses in secondary", text)
			case err != nil && (key == "in" || key == "out"):
				return nil, cli.Usagef(of+"%q: %v", text, err)
			case err != nil:
				return nil, cli.Usagef(of+"%q: %s is not an address of that kind", text, value)
			}
		}
		nics = append(nics, n)
	}
	return nics, nil
}

// parseAddrs parses addresses with + between them.
func parseAddrs(text string) (all []netip.Addr, err error) {
	for part := range strings.SplitSeq(text, "+") {
		a, err := netip.ParseAddr(part)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}
