package network

import (
	"strings"

	"seedbed"
	"seedbed/internal/cli"
)

// allowances holds the names of what a network can allow.
var allowances = []struct {
	name string
	in   func(*seedbed.NetworkPermissions) *bool
}{
	{"addresses", func(a *seedbed.NetworkPermissions) *bool { return &a.Addresses }},
	{"dhcp-server", func(a *seedbed.NetworkPermissions) *bool { return &a.DHCPServer }},
	{"router-advertisements", func(a *seedbed.NetworkPermissions) *bool { return &a.RouterAdvertisements }},
	{"metadata-addresses", func(a *seedbed.NetworkPermissions) *bool { return &a.MetadataAddresses }},
}

func allowed(a seedbed.NetworkPermissions) string {
	var names []string
	for _, w := range allowances {
		if *w.in(&a) {
			names = append(names, w.name)
		}
	}
	return strings.Join(names, ", ")
}

// parseAllowance parses names. "none" stands for nothing allowed.
func parseAllowance(names []string) (any, error) {
	var allow seedbed.NetworkPermissions
	for _, name := range names {
		found := name == none && len(names) == 1
		for _, w := range allowances {
			if w.name == name {
				*w.in(&allow), found = true, true
			}
		}
		if !found {
			return allow, cli.Usagef("--allow %q: expected addresses, dhcp-server, router-advertisements or metadata-addresses, or only none", name)
		}
	}
	return allow, nil
}
