package api_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// TestNetworksOfAProject makes networks with the tokens of a project, within what the installation lets it.
func TestNetworksOfAProject(t *testing.T) {
	t.Parallel()
	s, _, acme := tenants(t)
	s.expect(t, "POST", "/projects", `{"name":"shop"}`, 201)
	s.publish(t)
	admin, operator := s.by(t, acme[seedbed.RoleAdmin]), s.by(t, acme[seedbed.RoleOperator])
	shop := s.by(t, s.newTokenIn(t, "shop", "shop-admin", seedbed.RoleAdmin))

	const lan = `{"name":"lan","prefix":"10.200.0.0/24"}`
	operator("POST", "/networks", lan, 403, "network.manage")
	admin("POST", "/networks", lan, 201, `"name":"acme/lan"`, `"kind":"nat"`, `"gateway":"10.200.0.1"`, `"dns":["192.0.2.53"]`,
		`"dhcp":true`, `"published":{"all":false,"projects":[]}`, `"bridge":"sb-`)
	admin("POST", "/networks", lan, 409, `network \"acme/lan\" exists already`)
	admin("GET", "/networks/lan", "", 200, `"name":"acme/lan"`)
	shop("GET", "/networks/acme%2Flan", "", 404, `network \"acme/lan\" does not exist`)
	shop("DELETE", "/networks/acme%2Flan", "", 404)
	shop("GET", "/networks/acme%2Flan/leases", "", 404)

	// A project chooses neither addresses that the nodes need, nor what happens on them.
	admin("POST", "/networks", `{"name":"far","prefix":"10.1.0.0/24"}`, 403,
		"cannot have the prefix 10.1.0.0/24: expected one within 10.128.0.0/9")
	admin("POST", "/networks", `{"name":"far","kind":"isolated","prefix":"8.8.8.0/24"}`, 403, "cannot have the prefix")
	for _, member := range []string{`"bandwidth_in":"1Gbit"`, `"bridge":"eth0"`, `"identity":"mac"`, `"allow":{"addresses":true}`} {
		admin("POST", "/networks", `{"name":"open","prefix":"10.200.1.0/24",`+member+`}`, 403, "network.protect")
	}
	admin("POST", "/networks", `{"name":"wire","kind":"bridged","uplink":"br0"}`, 403, "network.protect")
	admin("POST", "/networks", `{"name":"wire","kind":"direct","uplink":"br0"}`, 403, "network.protect")
	admin("POST", "/networks", `{"name":"wide","prefix":"10.200.1.0/24","vni":7}`, 403, "network.protect")
	admin("POST", "/networks", `{"name":"wide","prefix":"10.200.1.0/24","overlay":true}`, 201, `"vni":`, `"mtu":1450`)
	admin("DELETE", "/networks/wide", "", 204)
	const v6 = `{"prefix6":"2001:db8:1::/64"}`
	admin("PATCH", "/networks/lan", v6, 403, "cannot have the prefix 2001:db8:1::/64: expected one within 10.128.0.0/9, fd12:3456:789a::/48")
	admin("PUT", "/network/lan?ip6_network=2001:db8:1::/64", "", 403, "cannot have the prefix 2001:db8:1::/64")
	admin("POST", "/networks", `{"name":"far","prefix":"10.200.1.0/24","prefix6":"2001:db8:1::/64"}`, 403, "cannot have the prefix")
	admin("PATCH", "/networks/lan", `{"prefix6":"fd12:3456:789a:7::/64","slaac":true}`, 200, `"prefix6":"fd12:3456:789a:7::/64"`)
	admin("PATCH", "/networks/lan", `{"prefix6":""}`, 200)
	admin("PATCH", "/networks/lan", `{"allow":{"dhcp_server":true}}`, 403, "network.protect")
	admin("PATCH", "/networks/lan", `{"bandwidth_out":"0"}`, 403, "network.protect")
	admin("PATCH", "/networks/default", `{"mtu":1400}`, 403, "belongs to project default")
	admin("DELETE", "/networks/default", "", 403, "belongs to project default")
	admin("PATCH", "/networks/lan", `{"mtu":1400}`, 200, `"mtu":1400`)
	shop("POST", "/networks", `{"name":"lan","prefix":"10.200.0.0/25"}`, 409, "overlaps that of a network of another project")

	// Another project uses it once it is published, and does not see what others have in it.
	admin("PUT", "/networks/lan/published", `{"projects":["shop"]}`, 200)
	admin("PUT", "/networks/lan/published", `{"all":true}`, 403)
	operator("POST", "/instances", `{"name":"web1","image":"debian","nics":[{"network":"lan","addr":"10.200.0.9"}]}`, 202)
	shop("POST", "/instances", `{"name":"web2","image":"debian","nics":[{"network":"acme/lan","addr":"10.200.0.9"}]}`, 409,
		"10.200.0.9 is taken")
	shop("POST", "/instances", `{"name":"web2","image":"debian","nics":[{"network":"acme/lan"}]}`, 202)
	if r := shop("GET", "/networks/acme%2Flan/leases", "", 200, `"instance":"web2.shop"`); strings.Contains(r.body, "web1") {
		t.Errorf("another project's lease is shown: %s", r.body)
	}
	forward := `{"forward":[{"listen":"tcp:8080","port":80}]}`
	shop("PATCH", "/instances/web2", forward, 403, "network.forward")
	shop("PATCH", "/instances/web2", `{"unforward":["tcp:8080"]}`, 403, "network.forward")
	if r := s.do(t, "PATCH", "/api/v1/instances/web2", forward, "Seedbed-Project", "shop"); r.status != 200 {
		t.Errorf("%+v", r)
	}
	shop("GET", "/networks/acme%2Flan/forwards", "", 200, `"instance":"web2.shop"`)
	admin("GET", "/networks/lan/forwards", "", 200, `[]`)
	admin("PATCH", "/networks/lan", `{"kind":"isolated"}`, 409, "forwards go into network", "remove those of other projects first")
	if r := s.do(t, "PATCH", "/api/v1/instances/web2", `{"unforward":["tcp:8080"]}`, "Seedbed-Project", "shop"); r.status != 200 {
		t.Errorf("%+v", r)
	}
	admin("DELETE", "/networks/lan", "", 409, `used by instance web1.acme and other projects`)

	// An administrator of the installation makes what a project cannot.
	if r := s.do(t, "POST", "/api/v1/networks", `{"name":"wan","kind":"routed","prefix":"10.1.0.0/24","bridge":"wan0","identity":"mac"}`,
		"Seedbed-Project", "acme"); r.status != 201 || !strings.Contains(r.body, `"name":"acme/wan"`) {
		t.Errorf("%+v", r)
	}
	admin("GET", "/networks/wan", "", 200, `"bridge":"wan0"`)
	if r := s.do(t, "POST", "/api/v1/networks", `{"name":"wire","kind":"bridged","uplink":"br0","vlan":7}`, "Seedbed-Project",
		"acme"); r.status != 201 || !strings.Contains(r.body, `"prefix":"","gateway":"","uplink":"br0","vlan":7`) {
		t.Errorf("%+v", r)
	}
	admin("DELETE", "/networks/wire", "", 204)
	admin("PATCH", "/networks/wan", `{"mtu":1400}`, 200)
	admin("PATCH", "/networks/wan", `{"kind":"nat"}`, 403, "cannot have the prefix")
	admin("PUT", "/network/wan?ip4_gateway=", "", 403, "cannot have the prefix")
	admin("PATCH", "/networks/lan", `{"kind":"isolated"}`, 200)

	// The audit log has what was before.
	if r := s.do(t, "GET", "/api/v1/audit?limit=1000", "", "Seedbed-Project", "acme"); !strings.Contains(r.body, `"bridge":"sb-`) {
		t.Errorf("the audit log has no network: %s", r.body)
	}

	// The quota counts them.
	s.expect(t, "PUT", "/projects/acme/quota", `{"max_networks":2}`, 200)
	admin("POST", "/networks", `{"name":"three","kind":"isolated","prefix":"10.200.0.0/24"}`, 403, "over its quota of networks")
	admin("DELETE", "/networks/wan", "", 204)
	admin("POST", "/networks", `{"name":"three","kind":"isolated","prefix":"10.200.0.0/24"}`, 201)
	s.expect(t, "GET", "/projects/acme", "", 200, `"networks":2`)
}

// TestPeering: a project peers its own networks, and learns of no others. An administrator of the installation peers those of two
// projects.
func TestPeering(t *testing.T) {
	t.Parallel()
	s, _, acme := tenants(t)
	s.publish(t)
	admin, operator := s.by(t, acme[seedbed.RoleAdmin]), s.by(t, acme[seedbed.RoleOperator])
	for name, prefix := range map[string]string{"lan": "10.200.0.0/24", "db": "10.200.1.0/24", "twin": "10.200.0.0/25"} {
		admin("POST", "/networks", fmt.Sprintf(`{"name":%q,"kind":"isolated","prefix":%q}`, name, prefix), 201)
	}
	s.expect(t, "POST", "/networks", `{"name":"secret","kind":"isolated","prefix":"10.96.0.0/24"}`, 201)
	operator("PATCH", "/networks/lan", `{"peer":["db"]}`, 403, "network.manage")
	admin("PATCH", "/networks/lan", `{"peer":["db"]}`, 200, `"peers":["acme/db"]`, `"peer_prefixes":["10.200.1.0/24"]`)
	operator("GET", "/networks/db", "", 200, `"peers":["acme/lan"]`, `"peer_prefixes":["10.200.0.0/24"]`)
	admin("PATCH", "/networks/db", `{"peer":["acme/lan"]}`, 409, `network \"acme/db\" is peered with network \"acme/lan\" already`)
	admin("PATCH", "/networks/lan", `{"peer":["lan"]}`, 422, "cannot be a peer of itself")
	admin("PATCH", "/networks/lan", `{"peer":["twin"]}`, 422, "have addresses in common: expected peers with other prefixes")
	admin("PATCH", "/networks/db", `{"peer":["twin"]}`, 409, `overlaps that of network \"acme/lan\"`)
	admin("PATCH", "/networks/lan", `{"unpeer":["twin"]}`, 404, `is not peered with network \"acme/twin\"`)

	// What is not the project's: one that is published to it, one that is not, and one that does not exist.
	admin("PATCH", "/networks/lan", `{"peer":["default"]}`, 403, "belongs to project default")
	for _, name := range []string{"default/secret", "secret", "nobody"} {
		admin("PATCH", "/networks/lan", fmt.Sprintf(`{"peer":[%q]}`, name), 422, "does not exist")
	}
	s.expect(t, "PATCH", "/networks/secret", `{"peer":["default"]}`, 200, `"peers":["default"]`)
	for _, r := range []response{admin("GET", "/networks/default", "", 200), admin("GET", "/networks", "", 200)} {
		if strings.Contains(r.body, "secret") || strings.Contains(r.body, "10.96.0.0/24") {
			t.Errorf("a project learns of the peers of another's network: %s", r.body)
		}
	}

	// Only an administrator of the installation peers networks of two projects; the project may end that.
	s.expect(t, "PATCH", "/networks/secret", `{"peer":["acme/lan"]}`, 200, `"peers":["acme/lan","default"]`)
	admin("GET", "/networks/lan", "", 200, `"peers":["acme/db","secret"]`)
	admin("PATCH", "/networks/lan", `{"unpeer":["default/secret"]}`, 200, `"peers":["acme/db"]`)
	s.expect(t, "GET", "/networks/secret", "", 200, `"peers":["default"]`)

	// A change that would make addresses ambiguous is refused, and a removal ends what there is.
	admin("PATCH", "/networks/lan", `{"prefix6":"fd12:3456:789a:7::/64"}`, 200)
	admin("PATCH", "/networks/db", `{"prefix6":"fd12:3456:789a:7::/64"}`, 409, `overlaps that of network \"acme/lan\"`)
	admin("DELETE", "/networks/db", "", 204)
	if r := admin("GET", "/networks/lan", "", 200); strings.Contains(r.body, "peer") {
		t.Errorf("peers after their removal: %s", r.body)
	}
}

// TestOverlay: an overlay has a number of its own, and the largest MTU that the interfaces of all nodes have room for.
func TestOverlay(t *testing.T) {
	t.Parallel()
	s := start(t)
	add := func(name, more, want string) {
		t.Helper()
		s.expect(t, "POST", "/networks", fmt.Sprintf(`{"name":%q,"kind":"isolated","prefix":"10.97.0.0/24"%s}`, name, more), 201, want)
	}
	add("one", `,"overlay":true`, `"mtu":1450`)
	for name, report := range map[string]seedbed.NodeReport{
		"hv2": {Address: netip.MustParseAddr("192.0.2.2"), AddressMTU: 9000},
		"hv3": {Address: netip.MustParseAddr("2001:db8::3"), AddressMTU: 8000},
		"hv4": {Address: netip.MustParseAddr("192.0.2.4")},
	} {
		s.expect(t, "POST", "/nodes", fmt.Sprintf(`{"name":%q,"worker":"https://%[1]s.example:7375"}`, name), 201)
		if err := s.db.NoteNode(t.Context(), name, report, "", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	add("two", `,"vni":2`, `"mtu":7930`)
	add("three", `,"vni":3,"overlay":true,"mtu":1400`, `"mtu":1400`)
	add("four", ``, `"dhcp":true`)
	if r := s.do(t, "GET", "/api/v1/networks/four", ""); strings.Contains(r.body, "vni") || strings.Contains(r.body, "mtu") {
		t.Errorf("a network that is not an overlay: %s", r.body)
	}
	s.expect(t, "POST", "/networks", `{"name":"five","prefix":"10.96.0.0/24","vni":2}`, 409, "the VNI 2 of network")
	s.expect(t, "POST", "/networks", `{"name":"five","kind":"bridged","uplink":"br0","overlay":true}`, 422, "has no VNI")
	s.expect(t, "POST", "/networks", `{"name":"seven","kind":"direct","uplink":"eth1","mode":"none"}`, 422, "expected bridge, vepa")
	s.expect(t, "POST", "/networks", `{"name":"seven","kind":"direct","uplink":"eth1"}`, 201, `"mode":"bridge"`)
	s.expect(t, "POST", "/networks", `{"name":"eight","kind":"bridged","uplink":"eth1"}`, 409, `share uplink eth1 with the direct network`)
	s.expect(t, "POST", "/networks", `{"name":"five","prefix":"10.96.0.0/24","vni":2,"identity":"mac"}`, 422, "expected tap")
	s.expect(t, "POST", "/networks", `{"name":"five","prefix":"10.96.0.0/24","vni":5,"overlay":false}`, 422, "overlay is false")
	tooMuch := "MTU 8000 is more than VXLAN leaves of the 8000 of the interface of node hv3: expected at most 7930"
	s.expect(t, "POST", "/networks", `{"name":"five","prefix":"10.96.0.0/24","vni":5,"mtu":8000}`, 422, tooMuch)
	s.expect(t, "PATCH", "/networks/two", `{"mtu":8000}`, 422, tooMuch)
	s.expect(t, "PATCH", "/networks/two", `{"mtu":1400}`, 200, `"mtu":1400`)
	s.expect(t, "PATCH", "/networks/four", `{"mtu":9000}`, 200, `"mtu":9000`)
	s.expect(t, "GET", "/nodes/hv3", "", 200, `"address":"2001:db8::3"`, `"address_mtu":8000`)
	encrypts := seedbed.NodeReport{Address: netip.MustParseAddr("192.0.2.2"), AddressMTU: 1500,
		Tunnel: seedbed.Tunnel{Key: seedbed.TunnelKey{1}, Port: 51820}}
	if err := s.db.NoteNode(t.Context(), "hv2", encrypts, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "POST", "/networks", `{"name":"six","kind":"isolated","prefix":"10.95.0.0/24","overlay":true}`, 201, `"mtu":1370`)
	s.expect(t, "PATCH", "/networks/six", `{"mtu":1400}`, 422, "MTU 1400 is more than VXLAN with encryption leaves of the 1500")
	s.expect(t, "GET", "/nodes/hv2", "", 200, `"tunnel":{"key":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","port":51820}`)
}

// TestAssignedAddressInUse checks that the hosts of a bridged network are asked before a NIC of an existing instance gets a further address
// there, also one that is chosen for it; and that nothing is assigned if one of them has it, or if they cannot be asked.
func TestAssignedAddressInUse(t *testing.T) {
	t.Parallel()
	s := start(t)
	var answer func([]seedbed.AddressProbe) (seedbed.AddressesProbed, error)
	var asked []seedbed.AddressProbe
	c := s.config()
	c.Probe = func(_ context.Context, node string, all []seedbed.AddressProbe) (seedbed.AddressesProbed, error) {
		if asked = append(asked, all...); node != testNode {
			t.Errorf("node %s is asked; want %s", node, testNode)
		}
		return answer(all)
	}
	s.restart(t, c)
	s.importImage(t, "debian")
	s.expect(t, "POST", "/networks", `{"name":"lan","kind":"bridged","uplink":"br0","prefix":"10.97.0.0/24",`+
		`"prefix6":"fd12:3456:789a:1::/64"}`, 201)
	s.expect(t, "POST", "/instances", `{"name":"web1","image":"debian","nics":[{"network":"lan"},{"network":"default"}]}`, 202)
	nothing := func([]seedbed.AddressProbe) (p seedbed.AddressesProbed, err error) { return p, nil }
	used := func(all []seedbed.AddressProbe) (p seedbed.AddressesProbed, err error) {
		last := all[0].Addrs[len(all[0].Addrs)-1]
		p.Used = []seedbed.AddressUse{{Bridge: all[0].Bridge, Addr: last, MAC: seedbed.MAC{2, 0, 0, 0, 0, 7}}}
		return p, nil
	}
	away := func([]seedbed.AddressProbe) (p seedbed.AddressesProbed, err error) {
		return p, seedbed.Errorf(seedbed.ErrUnavailable, "node hv1: seedbed-worker does not answer")
	}
	cut := func(all []seedbed.AddressProbe) (p seedbed.AddressesProbed, err error) {
		p.Unasked = map[string]string{all[0].Bridge: "it has no uplink"}
		return p, nil
	}
	old := func([]seedbed.AddressProbe) (p seedbed.AddressesProbed, err error) {
		return p, seedbed.Errorf(seedbed.ErrInvalid, "there is no such effect")
	}
	const ways = "addresses that are named are assigned without that by take (--take)"
	for _, tt := range []struct {
		name, body string
		answer     func([]seedbed.AddressProbe) (seedbed.AddressesProbed, error)
		status     int
		asks       string
		says       []string
	}{
		{"used", `{"assign":["10.97.0.7"]}`, used, 409, "10.97.0.7",
			[]string{"address 10.97.0.7 of network lan is used by a host with the MAC address 02:00:00:00:00:07: keep the address out"}},
		{"used, of IPv6", `{"assign":["fd12:3456:789a:1::7"]}`, used, 409, "fd12:3456:789a:1::7",
			[]string{"address fd12:3456:789a:1::7 of network lan"}},
		{"used, chosen", `{"assign":["10.97.0.2"],"assign_count":2}`, used, 409, "10.97.0.2 10.97.0.3 10.97.0.4",
			[]string{"10.97.0.4 of network lan"}},
		{"no answer", `{"assign":["10.97.0.7"]}`, away, 503, "10.97.0.7", []string{"does not answer", ways}},
		{"no uplink", `{"assign":["10.97.0.7"]}`, cut, 503, "10.97.0.7", []string{"node " + testNode + ": it has no uplink", ways}},
		{"another's network", `{"assign":["10.96.0.7"]}`, used, 422, "", []string{"10.96.0.7"}},
		{"too many", `{"assign_count":33}`, used, 422, "", []string{"assign_count is 33"}},
		{"taken", `{"assign":["10.97.0.1"]}`, used, 409, "", []string{"belongs to NIC 0 of instance web1"}},
		{"not bridged", `{"nic":1,"assign_count":1}`, used, 200, "", nil},
		{"free", `{"assign":["10.97.0.7"],"assign_count":1,"assign_count6":1}`, nothing, 200, "10.97.0.7 10.97.0.2 ",
			[]string{"10.97.0.2", "10.97.0.7"}},
		{"again", `{"unassign":["10.97.0.7"],"assign":["10.97.0.7","10.97.0.8"]}`, nothing, 200, "10.97.0.8", []string{"10.97.0.7", "10.97.0.8"}},
		{"an older worker", `{"assign":["10.97.0.9"]}`, old, 200, "10.97.0.9", []string{"10.97.0.9"}},
		{"taken from another", `{"assign":["10.97.0.10"],"take":true}`, used, 200, "", []string{"10.97.0.10"}},
	} {
		asked, answer = nil, tt.answer
		before := s.do(t, "GET", "/api/v1/instances/web1", "").body
		s.expect(t, "PATCH", "/instances/web1", tt.body, tt.status, tt.says...)
		if now := s.do(t, "GET", "/api/v1/instances/web1", "").body; tt.status != 200 && now != before {
			t.Errorf("%s: refused, and the instance changed from %s to %s", tt.name, before, now)
		}
		var asks string
		for _, p := range asked {
			asks += strings.Trim(fmt.Sprint(p.Addrs), "[]")
		}
		if !strings.HasPrefix(asks, tt.asks) || tt.asks == "" && asks != "" {
			t.Errorf("%s: asked for %q; want %q", tt.name, asks, tt.asks)
		}
	}
	s.expect(t, "PATCH", "/networks/lan", `{"no_probe":true}`, 200)
	asked = nil
	if s.expect(t, "PATCH", "/instances/web1", `{"assign":["10.97.0.20"]}`, 200); asked != nil {
		t.Errorf("asked for %v in a network that is not to be asked", asked)
	}
}
