package api_test

import "testing"

// TestPVCBareNetwork checks that PVC's clients make networks without addresses.
func TestPVCBareNetwork(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	for _, c := range []call{
		{"POST", "/network", "vni=2004&description=bare&nettype=managed", 200, msg("Network 'bare' added successfully!")},
		{
			"GET", "/network/2004", "", 200, `[{"vni":2004,"description":"bare","type":"managed","mtu":"1450","domain":"None","name_servers":[],` +
				`"ip6":{"network":"None","gateway":"None","dhcp_flag":"False"},` +
				`"ip4":{"network":"None","gateway":"None","dhcp_flag":"False","dhcp_start":"None","dhcp_end":"None"}}]`,
		},
		{"PUT", "/network/2004", "ip6_network=fd12:3456:789a:7::/64", 400,
			msg(`Network "2004" cannot get a prefix, since its guests have their addresses from elsewhere: make another network.`)},
		{"DELETE", "/network/2004", "", 200, msg("Network 'bare' removed successfully!")},
	} {
		s.pvc(t, c)
	}
}

// TestPVCGateway6 checks that the IPv6 gateway of PVC's clients is the address of the nodes, whichever it is.
func TestPVCGateway6(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	const net = "vni=2005&description=six&nettype=managed&ip6_network=fd12:3456:789a:8::/64&dhcp6=true"
	shown := func(gateway string) string {
		return `[{"vni":2005,"description":"six","type":"managed","mtu":"1450","domain":"None","name_servers":[],` +
			`"ip6":{"network":"fd12:3456:789a:8::/64","gateway":"` + gateway + `","dhcp_flag":"True"},` +
			`"ip4":{"network":"None","gateway":"None","dhcp_flag":"False","dhcp_start":"None","dhcp_end":"None"}}]`
	}
	for _, c := range []call{
		{"POST", "/network", net + "&ip6_gateway=x", 400, msg(`ERROR: The IPv6 gateway "x" is not an address.`)},
		{"POST", "/network", net + "&ip6_gateway=fd12:3456:789a:8::fe", 200, msg("Network 'six' added successfully!")},
		{"GET", "/network/2005", "", 200, shown("fd12:3456:789a:8::fe")},
		{"PUT", "/network/2005", "ip6_network=fd12:3456:789a:8::/64&mtu=1400", 200, msg("Network '2005' modified successfully!")},
		{"PUT", "/network/2005", "mtu=1450", 200, msg("Network '2005' modified successfully!")},
		{"GET", "/network/2005", "", 200, shown("fd12:3456:789a:8::fe")},
		{"PUT", "/network/2005", "ip6_gateway=fd12:3456:789a:8::1", 200, msg("Network '2005' modified successfully!")},
		{"GET", "/network/2005", "", 200, shown("fd12:3456:789a:8::1")},
		{"PUT", "/network/2005", "ip6_gateway=2001:db8::1", 400,
			msg(`Network "2005": IPv6 gateway 2001:db8::1 is not an address of the IPv6 prefix: expected one of fd12:3456:789a:8::/64.`)},
	} {
		s.pvc(t, c)
	}
}
