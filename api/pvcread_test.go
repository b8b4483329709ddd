package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
)

func TestPVCNode(t *testing.T) {
	t.Parallel()
	s := composable(t)
	i := s.runVM(t, "web1")
	r := s.do(t, "GET", "/api/v1/node/host1", "")
	for _, want := range []string{
		`"name":"host1"`, `"daemon_state":"run"`, `"coordinator_state":"primary"`,
		`"domain_state":"ready"`, `"pvc_version":"1.2.3"`, `"health":50`,
		`"health_details":[{"name":"PORT_80"`, `"domains_count":1,"running_domains":["` + string(i.ID) + `"]`, `"vcpu":{"total":4,"allocated":1}`,
		`"memory":{"total":16384,"allocated":512,"provisioned":512,"used":4096,"free":12288}`,
	} {
		if r.status != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%d %s\nhas no %s", r.status, r.body, want)
		}
	}
	for _, path := range []string{"/node", "/node?limit=host", "/node?daemon_state=run", "/node?daemon_state=stop&domain_state=ready"} {
		if all := s.do(t, "GET", "/api/v1"+path, ""); all.body != r.body {
			t.Errorf("%s: %+v", path, all)
		}
	}
	for _, c := range []call{
		{"GET", "/node/host1/daemon-state", "", 200, `{"daemon_state":"run","name":"host1"}`},
		{"GET", "/node/host1/coordinator-state", "", 200, `{"coordinator_state":"primary","name":"host1"}`},
		{"GET", "/node/host1/domain-state", "", 200, `{"domain_state":"ready","name":"host1"}`},
		{"GET", "/node/none", "", 404, msg("Node not found.")},
		{"GET", "/node?limit=x", "", 404, msg("Node not found.")},
		{"GET", "/node?daemon_state=stop", "", 404, msg("Node not found.")},
		{
			"POST", "/node/host1/domain-state", "state=flush", 405, msg(`Use "seedbed node drain", which takes the VMs of a node to others ` +
				`and keeps new ones away, and "seedbed node uncordon", which lets them come again.`),
		},
	} {
		s.pvc(t, c)
	}
}

func TestPVCNetwork(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	const (
		other = `{"vni":1000,"description":"1000","type":"managed","mtu":"1500","domain":"None","name_servers":[],` +
			`"ip6":{"network":"None","gateway":"None","dhcp_flag":"False"},` +
			`"ip4":{"network":"10.98.0.0/24","gateway":"10.98.0.1","dhcp_flag":"False","dhcp_start":"None","dhcp_end":"None"}}`
		usual = `{"vni":#,"description":"default","type":"managed","mtu":"1500","domain":"None","name_servers":[],` +
			`"ip6":{"network":"None","gateway":"None","dhcp_flag":"False"},` +
			`"ip4":{"network":"10.99.0.0/24","gateway":"10.99.0.1","dhcp_flag":"True","dhcp_start":"10.99.0.2","dhcp_end":"10.99.0.254"}}`
	)
	const lab = "vni=2000&description=lab&nettype=managed&mtu=1400&domain=lab.local&name_servers=9.9.9.9&name_servers=1.1.1.1" +
		"&ip4_network=10.88.0.0/24&ip4_gateway=10.88.0.1"
	for _, c := range []call{
		{"GET", "/network", "", 200, "[" + other + "," + usual + "]"},
		{"GET", "/network?limit=^1000$", "", 200, "[" + other + "]"},
		{"GET", "/network/1000", "", 200, "[" + other + "]"},
		{"GET", "/network/default", "", 200, "[" + usual + "]"},
		{"GET", "/network/none", "", 404, msg("Network not found.")},
		{"GET", "/network?limit=none", "", 404, msg("Network not found.")},
		{"POST", "/network", "vni=0&description=x&nettype=managed", 400, lacks("vni", "A valid VNI must be specified.")},
		{"POST", "/network", "vni=2000&nettype=managed", 400, lacks("description", "A valid description must be specified.")},
		{"POST", "/network", "vni=2000&description=lab&nettype=open", 400, lacks("nettype", "A valid nettype must be specified.")},
		{
			"POST", "/network", "vni=5000&description=wire&nettype=bridged", 400,
			msg(`Network "5000": VLAN 5000: expected 1 to 4094, or 0 for none.`),
		},
		{
			"POST", "/network", "vni=77&description=wire&nettype=bridged&mtu=&domain=&ip4_network=&ip4_gateway=&dhcp4=false", 200,
			msg("Network 'wire' added successfully!"),
		},
		{
			"GET", "/network/77", "", 200, `[{"vni":77,"description":"wire","type":"bridged","mtu":"1500","domain":"None",` +
				`"name_servers":[],"ip6":{"network":"None","gateway":"None","dhcp_flag":"False"},` +
				`"ip4":{"network":"None","gateway":"None","dhcp_flag":"False","dhcp_start":"None","dhcp_end":"None"}}]`,
		},
		{"PUT", "/network/77", "description=wire&mtu=1400&ip4_gateway=&dhcp4=false", 200, msg("Network '77' modified successfully!")},
		{"PUT", "/network/77", "ip4_network=10.1.0.0/24", 400, msg("ERROR: A bridged network has no ip4_network.")},
		{"DELETE", "/network/wire", "", 200, msg("Network 'wire' removed successfully!")},
		{
			"POST", "/network", "vni=2000&description=lab&nettype=managed&ip4_network=10.88.0.0/24&dhcp4=true", 400,
			msg("ERROR: DHCPv4 start and end addresses are required for a DHCPv4-enabled network."),
		},
		{
			"POST", "/network", lab + "&dhcp4=true&dhcp4_start=10.88.0.100&dhcp4_end=10.88.0.199", 200,
			msg("Network 'lab' added successfully!"),
		},
		{
			"GET", "/network/lab", "", 200, `[{"vni":2000,"description":"lab","type":"managed","mtu":"1400","domain":"lab.local",` +
				`"name_servers":["9.9.9.9","1.1.1.1"],"ip6":{"network":"None","gateway":"None","dhcp_flag":"False"},` +
				`"ip4":{"network":"10.88.0.0/24","gateway":"10.88.0.1","dhcp_flag":"True","dhcp_start":"10.88.0.100","dhcp_end":"10.88.0.199"}}]`,
		},
		{
			"POST", "/network", "vni=2002&description=wide&nettype=managed&ip4_network=10.87.0.0/24", 200,
			msg("Network 'wide' added successfully!"),
		},
		{
			"GET", "/network/2002", "", 200, `[{"vni":2002,"description":"wide","type":"managed","mtu":"1450","domain":"None",` +
				`"name_servers":["192.0.2.53"],"ip6":{"network":"None","gateway":"None","dhcp_flag":"False"},` +
				`"ip4":{"network":"10.87.0.0/24","gateway":"None","dhcp_flag":"False","dhcp_start":"None","dhcp_end":"None"}}]`,
		},
		{"POST", "/network", lab, 400, msg("ERROR: A network with VNI '2000' already exists!")},
		{
			"POST", "/network", strings.Replace(lab, "2000", "2001", 1), 400,
			msg("ERROR: A network with description 'lab' already exists!"),
		},
		{"PUT", "/network/2000", "ip4_gateway=&mtu=9000&description=closed", 200, msg("Network '2000' modified successfully!")},
		{
			"GET", "/network?limit=^closed", "", 200, `[{"vni":2000,"description":"closed","type":"managed","mtu":"9000","domain":"lab.local",` +
				`"name_servers":["9.9.9.9","1.1.1.1"],"ip6":{"network":"None","gateway":"None","dhcp_flag":"False"},` +
				`"ip4":{"network":"10.88.0.0/24","gateway":"None","dhcp_flag":"True","dhcp_start":"10.88.0.100","dhcp_end":"10.88.0.199"}}]`,
		},
		{
			"PUT", "/network/2000", "ip4_network=10.89.0.0/24", 400,
			msg("ERROR: The IPv4 network cannot be changed: the VMs have addresses of it."),
		},
		{
			"POST", "/network", "vni=2003&description=six&nettype=managed&ip6_network=fd12:3456:789a:6::/64&ip6_gateway=fd12:3456:789a:6::1" +
				"&dhcp6=true", 200, msg("Network 'six' added successfully!"),
		},
		{
			"GET", "/network/2003", "", 200, `[{"vni":2003,"description":"six","type":"managed","mtu":"1450","domain":"None","name_servers":[],` +
				`"ip6":{"network":"fd12:3456:789a:6::/64","gateway":"fd12:3456:789a:6::1","dhcp_flag":"True"},` +
				`"ip4":{"network":"None","gateway":"None","dhcp_flag":"False","dhcp_start":"None","dhcp_end":"None"}}]`,
		},
		{"PUT", "/network/none", "mtu=1400", 400, msg(`ERROR: Could not find network "none" in the cluster!`)},
		{"PUT", "/network/2000", "ip6_network=fd00::", 400,
			msg("ERROR: The IPv6 network \"fd00::\" is not a prefix such as fd12:3456:789a:1::/64.")},
		{"PUT", "/network/2000", "ip6_network=fd12:3456:789a:1::/64&ip6_gateway=fd12:3456:789a:2::9", 400,
			msg(`Network "2000": IPv6 gateway fd12:3456:789a:2::9 is not an address of the IPv6 prefix: expected one of fd12:3456:789a:1::/64.`)},
		{"PUT", "/network/2000", "ip6_network=fd12:3456:789a:1::/64&ip6_gateway=fd12:3456:789a:1::1", 200,
			msg("Network '2000' modified successfully!")},
		{
			"GET", "/network?limit=^closed", "", 200, `[{"vni":2000,"description":"closed","type":"managed","mtu":"9000","domain":"lab.local",` +
				`"name_servers":["9.9.9.9","1.1.1.1"],"ip6":{"network":"fd12:3456:789a:1::/64","gateway":"None","dhcp_flag":"True"},` +
				`"ip4":{"network":"10.88.0.0/24","gateway":"None","dhcp_flag":"True","dhcp_start":"10.88.0.100","dhcp_end":"10.88.0.199"}}]`,
		},
		{"PUT", "/network/2000", "ip6_network=", 200, msg("Network '2000' modified successfully!")},
		{"GET", "/network/2000/lease", "", 404, msg("Lease not found.")},
		{
			"POST", "/network/2000/lease", "macaddress=52:54:00:00:00:0A&ipaddress=10.88.0.20&hostname=printer", 200,
			msg("DHCP reservation '52:54:00:00:00:0a' added successfully!"),
		},
		{
			"POST", "/network/2000/lease/52:54:00:00:00:0b", "ipaddress=10.88.0.21", 200,
			msg("DHCP reservation '52:54:00:00:00:0b' added successfully!"),
		},
		{"POST", "/network/2000/lease", "ipaddress=10.88.0.22", 400, lacks("macaddress", "A valid MAC address must be specified.")},
		{
			"POST", "/network/2000/lease/52:54:00:00:00:0A", "ipaddress=10.88.0.22", 400,
			msg("ERROR: A reservation with MAC '52:54:00:00:00:0a' already exists!"),
		},
		{
			"POST", "/network/2000/lease/52-54", "ipaddress=10.88.0.22", 400,
			msg("ERROR: MAC address '52-54' is not valid! Always use ':' as a separator."),
		},
		{"POST", "/network/2000/lease/52:54:00:00:00:0c", "ipaddress=10.88", 400, msg("ERROR: IP address '10.88' is not valid!")},
		{
			"GET", "/network/2000/lease", "", 200,
			`[{"hostname":"printer","ip4_address":"10.88.0.20","mac_address":"52:54:00:00:00:0a","timestamp":"static"},` +
				`{"hostname":"","ip4_address":"10.88.0.21","mac_address":"52:54:00:00:00:0b","timestamp":"static"}]`,
		},
		{"DELETE", "/network/2000/lease/printer", "", 200, msg("DHCP static reservation '52:54:00:00:00:0a' removed successfully!")},
		{"DELETE", "/network/2000/lease/10.88.0.21", "", 200, msg("DHCP static reservation '52:54:00:00:00:0b' removed successfully!")},
		{"DELETE", "/network/2000/lease/printer", "", 400, msg("ERROR: No DHCP reservation or lease exists matching 'printer'!")},
		{"GET", "/network/2000/acl", "", 404, msg("ACL not found.")},
		{"POST", "/network/closed/acl", "description=ssh&direction=in&rule=tcp dport 22 counter accept", 200,
			msg("Firewall rule 'ssh' added successfully!")},
		{"POST", "/network/2000/acl/no", "rule=counter drop&direction=in&order=7", 200, msg("Firewall rule 'no' added successfully!")},
		{"POST", "/network/2000/acl", "description=web&rule=ip saddr 192.0.2.0/24 tcp dport { 80, 443 } accept&order=1", 200,
			msg("Firewall rule 'web' added successfully!")},
		{"POST", "/network/2000/acl/dns", "rule=udp dport 53 accept&direction=out", 200, msg("Firewall rule 'dns' added successfully!")},
		{"POST", "/network/2000/acl/web", "rule=accept&direction=out", 400, msg("ERROR: A rule with description 'web' already exists!")},
		{"POST", "/network/2000/acl/x", "", 400, lacks("rule", "A rule must be specified.")},
		{"POST", "/network/2000/acl", "rule=accept", 400, lacks("description", "A whitespace-free description must be specified.")},
		{"POST", "/network/2000/acl", "rule=accept&description=a b", 400,
			lacks("description", "A whitespace-free description must be specified.")},
		{"POST", "/network/2000/acl/x", "rule=accept&direction=up", 400, lacks("direction", "A valid direction must be specified.")},
		{"POST", "/network/2000/acl/x", "rule=accept&order=first", 400, msg("ERROR: The order must be an integer.")},
		{"POST", "/network/2000/acl/x", "rule=accept&order=-1", 400, msg("ERROR: The order must not be negative.")},
		{"POST", "/network/2000/acl/x", "rule=reject", 400, msg("ERROR: Failed to add firewall rule. Rule \"reject\": " +
			"reject: what no security group allows is dropped without an answer: expected drop.")},
		{"POST", "/network/none/acl/x", "rule=accept", 400, msg(`ERROR: Could not find network "none" in the cluster!`)},
		{
			"GET", "/network/2000/acl", "", 200, `[{"direction":"in","order":0,"description":"ssh","rule":"tcp dport 22 counter accept"},` +
				`{"direction":"in","order":1,"description":"web","rule":"ip saddr 192.0.2.0/24 tcp dport { 80, 443 } accept"},` +
				`{"direction":"in","order":2,"description":"no","rule":"counter drop"},` +
				`{"direction":"out","order":0,"description":"dns","rule":"udp dport 53 accept"}]`,
		},
		{"GET", "/network/2000/acl?direction=out", "", 200, `[{"direction":"out","order":0,"description":"dns","rule":"udp dport 53 accept"}]`},
		{"GET", "/network/2000/acl?limit=^n", "", 200, `[{"direction":"in","order":2,"description":"no","rule":"counter drop"}]`},
		{"GET", "/network/2000/acl/no", "", 200, `[{"direction":"in","order":2,"description":"no","rule":"counter drop"}]`},
		{"GET", "/network/2000/acl/n", "", 404, msg("ACL not found.")},
		{"GET", "/network/2000/acl?limit=(", "", 400, msg("ERROR: The limit is not a regular expression.")},
		{"GET", "/network/none/acl", "", 400, msg(`ERROR: Could not find network "none" in the cluster!`)},
		{"DELETE", "/network/2000/acl/dns", "", 200, msg("Firewall rule 'dns' removed successfully!")},
		{"DELETE", "/network/2000/acl/dns", "", 400, msg("ERROR: No firewall rule exists matching description 'dns'!")},
		{"GET", "/network/none/lease", "", 400, msg(`ERROR: Could not find network "none" in the cluster!`)},
		{"DELETE", "/network/closed", "", 200, msg("Network 'closed' removed successfully!")},
		{"DELETE", "/network/closed", "", 400, msg(`ERROR: Could not find network "closed" in the cluster!`)},
	} {
		s.pvc(t, c)
	}
	s.expect(t, "GET", "/networks/2002", "", 200, `"vni":2002`)

	// A gateway makes an isolated network one of the kind nat, and leaves every other kind.
	modified := call{"PUT", "/network/2002", "ip4_gateway=10.87.0.1", 200, msg("Network '2002' modified successfully!")}
	s.pvc(t, modified)
	s.expect(t, "GET", "/networks/2002", "", 200, `"kind":"nat"`)
	s.expect(t, "PATCH", "/networks/2002", `{"kind":"routed"}`, 200)
	s.pvc(t, modified)
	s.expect(t, "GET", "/networks/2002", "", 200, `"kind":"routed"`)
	s.pvc(t, call{"PUT", "/network/2002", "ip4_gateway=", 200, msg("Network '2002' modified successfully!")})
	s.expect(t, "GET", "/networks/2002", "", 200, `"kind":"isolated"`)
}

// TestPVCLeases: each IPv4 address of a NIC has a row, its first one first. IPv6 addresses have none.
func TestPVCLeases(t *testing.T) {
	t.Parallel()
	s := composable(t)
	i := s.runVM(t, "web1")
	s.pvc(t, call{"POST", "/network/default/lease", "macaddress=" + i.NICs[0].MAC.String() + "&ipaddress=10.99.0.40&hostname=second", 200,
		msg("DHCP reservation '" + i.NICs[0].MAC.String() + "' added successfully!")})
	s.expect(t, "PATCH", "/instances/web1", `{"assign":["fd12:3456:789a:9::7"]}`, 422, `\"default\", which has no IPv6 prefix: expected one`)
	s.expect(t, "PATCH", "/networks/default", `{"prefix6":"fd12:3456:789a:9::/64"}`, 200)
	s.expect(t, "PATCH", "/instances/web1", `{"assign":["10.99.0.40","fd12:3456:789a:9::7"],"assign_count":1,"assign_count6":1}`, 200,
		`"secondary":["10.99.0.3","10.99.0.40","fd12:3456:789a:9::7","fd12:3456:789a:9:5054:`)
	s.expect(t, "PATCH", "/instances/web1", `{"assign":["fd12:3456:789a:9::1"]}`, 422, "it is the node's")
	s.expect(t, "PATCH", "/instances/web1", `{"assign_count6":-1}`, 422, "assign_count6 is -1: expected 0 to 32")
	s.expect(t, "GET", "/networks/default/leases", "", 200, `{"addr":"","mac":"`+i.NICs[0].MAC.String()+
		`","instance":"web1","nic":0,"addr6":"fd12:3456:789a:9::7","secondary":true}`)
	row := func(name, addr string) string {
		return `{"hostname":"` + name + `","ip4_address":"` + addr + `","mac_address":"` + i.NICs[0].MAC.String() + `","timestamp":"static"}`
	}
	s.pvc(t, call{"GET", "/network/default/lease", "", 200,
		"[" + row("web1", "10.99.0.40") + "," + row("web1", i.NICs[0].Addr.String()) + "," + row("web1", "10.99.0.3") + "]"})
	const mac = "52:54:00:00:00:61" // a reservation of IPv6 is neither shown nor removed
	s.expect(t, "PATCH", "/networks/default", `{"reserve":[{"mac":"`+mac+`","addr":"fd12:3456:789a:9::61"}]}`, 200)
	s.pvc(t, call{"POST", "/network/default/lease", "macaddress=" + mac + "&ipaddress=fd12:3456:789a:9::62", 400,
		msg("ERROR: IP address 'fd12:3456:789a:9::62' is not valid!")})
	s.pvc(t, call{"POST", "/network/default/lease", "macaddress=" + mac + "&ipaddress=10.99.0.61", 200,
		msg("DHCP reservation '" + mac + "' added successfully!")})
	s.pvc(t, call{"GET", "/network/default/lease/" + mac, "", 200,
		`[{"hostname":"","ip4_address":"10.99.0.61","mac_address":"` + mac + `","timestamp":"static"}]`})
	s.pvc(t, call{"DELETE", "/network/default/lease/" + mac, "", 200, msg("DHCP static reservation '" + mac + "' removed successfully!")})
	s.expect(t, "GET", "/networks/default", "", 200, `"addr":"fd12:3456:789a:9::61"`)
	s.pvc(t, call{"DELETE", "/network/default/lease/10.99.0.3", "", 400,
		msg(`ERROR: The address 10.99.0.3 is a secondary one of VM web1: "seedbed address unassign" takes it away.`)})
}

// TestACLsAsGroups shows what PVC's ACLs are for Seedbed, and who may make them.
func TestACLsAsGroups(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.pvc(t, call{"POST", "/network/default/acl/web", "rule=ip saddr 192.0.2.0/24 tcp dport 80 accept", 200,
		msg("Firewall rule 'web' added successfully!")})
	s.expect(t, "GET", "/security-groups", "", 200, `"name":"acl:default"`)
	s.expect(t, "GET", "/security-groups/open:default", "", 404, "does not exist")
	s.pvc(t, call{"POST", "/network/default/acl/no", "rule=drop", 200, msg("Firewall rule 'no' added successfully!")})
	s.expect(t, "GET", "/security-groups/acl:default", "", 200, `"description":"what is accepted by the ACLs of network default"`,
		`{"direction":"in","protocol":"tcp","ports":"80","prefix":"192.0.2.0/24","description":"web"}`)
	s.expect(t, "GET", "/security-groups/default%2Fopen%3Adefault", "", 200, `{"direction":"out","protocol":"any"}`)
	s.expect(t, "GET", "/networks/default", "", 200, `"acls":[{"direction":"in","description":"web","rule":"ip saddr 192.0.2.0/24`)
	s.expect(t, "PATCH", "/networks/default", `{"mtu":1400}`, 200, `"acls":[{`)
	s.expect(t, "PATCH", "/security-groups/acl:default", `{"allow":[{"direction":"in","protocol":"tcp"}]}`, 422, "pvc network acl add|remove")
	s.expect(t, "DELETE", "/security-groups/acl:default", "", 422, "pvc network acl")
	s.expect(t, "POST", "/security-groups", `{"name":"acl:other"}`, 422)
	s.pvc(t, call{"DELETE", "/network/default/acl/web", "", 200, msg("Firewall rule 'web' removed successfully!")})
	s.expect(t, "GET", "/audit", "", 200, `"request":"DELETE /api/v1/network/default/acl/web"`, `tcp dport 80 accept`)
	s.expect(t, "POST", "/roles", `{"name":"netter","actions":["network.*"]}`, 201)
	netter := s.by(t, s.newTokenIn(t, seedbed.DefaultProject, "netter", "netter"))
	netter("POST", "/network/default/acl/x?rule=accept", "", 403, "securitygroup.manage")
	netter("DELETE", "/network/default/acl/no", "", 403, "securitygroup.manage")
	netter("GET", "/network/default/acl", "", 200, `"description":"no"`)
}

// TestACLsOfAnother: a project does not see the ACLs of a network that another publishes to it.
func TestACLsOfAnother(t *testing.T) {
	t.Parallel()
	s, _, acme := tenants(t)
	s.publish(t)
	s.pvc(t, call{"POST", "/network/default/acl/web", "rule=tcp dport 80 accept", 200, msg("Firewall rule 'web' added successfully!")})
	admin := s.by(t, acme[seedbed.RoleAdmin])
	for _, path := range []string{"/networks/default", "/networks"} {
		if r := admin("GET", path, "", 200); strings.Contains(r.body, "acls") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	admin("GET", "/network/default/acl", "", 404, "ACL not found.")
}

func TestPVCVolume(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.pvc(t, call{"GET", "/storage/ceph/volume", "", 404, msg("Volume not found.")})
	s = composable(t)
	i := s.runVM(t, "web1")
	image := s.do(t, "GET", "/api/v1/storage/ceph/volume/default/debian", "")
	for _, want := range []string{`[{"name":"debian","pool":"default","stats":{"name":"debian",` +
		`"id":"debian","size":"1024M","objects":256,"order":22,"object_size":4194304,"snapshot_count":0,`,
		`"format":2,"features":[],"op_features":[],"flags":[],"create_timestamp":"`} {
		if image.status != 200 || !strings.Contains(image.body, want) {
			t.Errorf("%+v\nhas no %s", image, want)
		}
	}
	if r := s.do(t, "GET", "/api/v1/storage/ceph/volume?limit=^"+string(i.ID), ""); r.status != 200 ||
		!strings.Contains(r.body, `"name":"`+i.Volumes[0].Name+`"`) || strings.Contains(r.body, "debian") {
		t.Errorf("%+v", r)
	}
	if r := s.do(t, "GET", "/api/v1/storage/ceph/volume?pool=default", ""); strings.Count(r.body, `"pool":"default"`) != 2 {
		t.Errorf("%+v", r)
	}
	s.pvc(t, call{"GET", "/storage/ceph/volume?pool=other", "", 404, msg("Volume not found.")})
	s.pvc(t, call{"GET", "/storage/ceph/volume/default/none", "", 404, msg("Volume not found.")})
	s.pvc(t, call{"GET", "/storage/ceph/pool", "", 404,
		msg(`Pools are part of the configuration (storage.pools in seedbed.yaml): "seedbed pool list" shows them.`)})
}

// TestPVCVolumeResize checks that PVC's way makes the disk of a VM and a volume larger, by their names in the pool.
func TestPVCVolumeResize(t *testing.T) {
	t.Parallel()
	s := composable(t)
	i := s.runVM(t, "web1")
	s.expect(t, "POST", "/volumes", `{"name":"data","size":"1GiB"}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	v, err := s.db.ProjectVolume(t.Context(), seedbed.DefaultProject, "data")
	if err != nil {
		t.Fatal(err)
	}
	const p = "/storage/ceph/volume/default/"
	for query, says := range map[string]string{
		"":                        "At least one modification must be specified",
		"?new_size=2G&new_name=x": "Can only perform one modification at once",
		"?new_name=x":             `ERROR: A volume keeps its name in its pool: "seedbed volume rename" changes the other one.`,
		"?new_size=2X":            "ERROR: Requested volume size '2X' does not have a valid SI unit",
		"?new_size=2000000T":      "expected at most 64TiB",
		"?new_size=512M":          "a volume can only become larger",
	} {
		r := s.do(t, "PUT", "/api/v1"+p+v.Volume+query, "")
		if r.status < 400 || r.status > 422 || !strings.Contains(r.body, strings.ReplaceAll(says, `"`, `\"`)) {
			t.Errorf("%q: %d %s; want %q", query, r.status, r.body, says)
		}
	}
	s.pvc(t, call{"PUT", p + "none?new_size=2G", "", 400, msg("ERROR: No volume with name 'none' is present in pool 'default'.")})
	for name, kind := range map[string]seedbed.JobKind{v.Volume: seedbed.JobVolumeResize, i.Volumes[0].Name: seedbed.JobResize} {
		answer := make(chan response, 1)
		go func() { answer <- s.do(t, "PUT", "/api/v1"+p+name+"?new_size=2048G&force=False", "") }()
		s.nextJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
		if r := <-answer; r.status != 200 || !strings.Contains(r.body, "Resized RBD volume '"+name+"' to size '2048G' in pool 'default'.") {
			t.Errorf("%+v", r)
		}
		jobs, err := s.db.ListJobs(t.Context(), seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: kind})
		if err != nil || len(jobs) != 1 || !strings.Contains(string(jobs[0].Spec), `"size":"2TiB"`) {
			t.Errorf("%s jobs %+v, %v", kind, jobs, err)
		}
	}
}

// TestPVCMessages checks that a refusal has the message that PVC's client prints, whichever path the
// client asks for.
func TestPVCMessages(t *testing.T) {
	t.Parallel()
	s := composable(t)
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/faults?sort_key=last_reported", 404, "Seedbed has no list of faults: "},
		{"PUT", "/faults/1", 404, "Seedbed has no list of faults: "},
		{"GET", "/backup", 404, "The database is not dumped here: "},
		{"POST", "/restore", 404, "The database is not restored here: "},
		{"POST", "/initialize", 404, "There is nothing to initialise: "},
		{"GET", "/sriov/vf/host1", 404, "PVC's API of SR-IOV is not here: "},
		{"GET", "/metrics", 404, "The metrics of Seedbed are at /metrics"},
		{"POST", "/vm/web1/snapshot/export?snapshot_name=a", 404, "Snapshots are not exported, imported or sent "},
		{"GET", "/nothing/of/this/kind", 404, "There is no such path: "},
		{"GET", "/instances/none", 404, `Instance "none" does not exist.`},
		{"PUT", "/instances", 405, "The path does not support this method: "},
		{"POST", "/instances", 415, "Expected Content-Type: application/json."},
	} {
		r := s.do(t, c.method, "/api/v1"+c.path, "")
		var answer struct{ Message string }
		if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != c.status || answer.Message == "" ||
			!strings.HasPrefix(answer.Message, c.says) || !strings.HasSuffix(answer.Message, ".") {
			t.Errorf("%s %s: %d %s; want %d and a message that begins with %q", c.method, c.path, r.status, r.body, c.status, c.says)
		}
	}
}
