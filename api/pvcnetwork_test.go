package api_test

import "testing"

// TestPVCBareNetwork checks that PVC's clients make networks without addresses.
func TestPVCBareNetwork(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	for _, c := range []call{
		{"POST", "/network", "vni=2004&description=bare&nettype=managed", 200, msg("Network 'bare' added successfully!")},
		{
			"GET", "/network/2004", "", 200, `[{"vni":2004,"description":"bare","type":"managed","mtu":1450,"domain":"None","name_servers":[],` +
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
