package seedbed_test

import (
	"net/netip"
	"strings"
	"testing"

	"seedbed"
)

// acl returns an ACL that accepts what rules say, or drops everything.
func acl(t *testing.T, d seedbed.Direction, name string, accepts ...string) seedbed.NetworkACL {
	t.Helper()
	a := seedbed.NetworkACL{Direction: d, Description: name, Rule: "text", Drop: len(accepts) == 0}
	for _, text := range accepts {
		r, err := seedbed.ParseSecurityRule(text)
		if err != nil {
			t.Fatal(err)
		}
		a.Accepts = append(a.Accepts, r)
	}
	return a
}

// TestACLGroups makes the groups of a network's ACLs, and of NICs in it.
func TestACLGroups(t *testing.T) {
	t.Parallel()
	n := seedbed.Network{Name: "acme/100", Prefix: netip.MustParsePrefix("10.100.0.0/24")}
	in, out := seedbed.DirectionIn, seedbed.DirectionOut
	ssh, web := acl(t, in, "ssh", "in tcp 22", "in tcp 22 from 10.0.0.0/8"), acl(t, in, "web", "in tcp 80", "in tcp 22")
	drop := acl(t, in, "no")
	within := "in any from 10.100.0.0/24 in any from fe80::/10 in any from 0.0.0.0/32"
	for _, tt := range []struct {
		acls      []seedbed.NetworkACL
		acl, rest string // their rules
		open      string // the groups of a NIC in open
	}{
		{nil, "", "", "acme/open"},
		{[]seedbed.NetworkACL{ssh, web}, "in tcp 22 from any in tcp 22 from 10.0.0.0/8 in tcp 80 from any", "", "acme/open"},
		{[]seedbed.NetworkACL{ssh, drop, web}, "in tcp 22 from any in tcp 22 from 10.0.0.0/8", within + " out any to any",
			"acme/acl:100 acme/open:100"},
		{[]seedbed.NetworkACL{ssh, acl(t, in, "all", "in any"), drop},
			"in tcp 22 from any in tcp 22 from 10.0.0.0/8 in any from any", "", "acme/open"},
		{[]seedbed.NetworkACL{drop, acl(t, out, "dns", "out udp 53"), acl(t, out, "none")}, "out udp 53 to any", within +
			" out any to 10.100.0.0/24 out any to fe80::/10 out any to 224.0.0.0/4 out any to 255.255.255.255/32 out any to ff00::/8",
			"acme/acl:100 acme/open:100"},
	} {
		n.ACLs = tt.acls
		if err := n.CheckACLs(); err != nil {
			t.Error(err)
		}
		got := map[string]string{}
		for _, g := range n.ACLGroups() {
			var rules []string
			for _, r := range g.Rules {
				rules = append(rules, r.String())
			}
			got[g.Name] = strings.Join(rules, " ")
			if network := seedbed.NetworkOfGroup(g.Name); network != n.Name {
				t.Errorf("the network of %s is %q", g.Name, network)
			}
		}
		if got["acme/acl:100"] != tt.acl || got["acme/open:100"] != tt.rest {
			t.Errorf("%v: %q\nwant %q and %q", tt.acls, got, tt.acl, tt.rest)
		}
		def := "acme/default"
		if tt.acls != nil {
			def += " acme/acl:100"
		}
		for groups, want := range map[string]string{"acme/open": tt.open, "acme/default": def, "acme/web": "acme/web",
			"acme/default acme/web": "acme/default acme/web", "beta/default": "beta/default"} {
			if got := n.GroupsOf(strings.Fields(groups)); strings.Join(got, " ") != want {
				t.Errorf("%v: a NIC in %s is in %s; want %s", tt.acls, groups, got, want)
			}
		}
	}
	var many []seedbed.NetworkACL
	for i := range 61 {
		many = append(many, seedbed.NetworkACL{Direction: in, Description: strings.Repeat("x", i+1)})
	}
	for says, acls := range map[string][]seedbed.NetworkACL{
		"not one word":             {acl(t, in, "the office", "in tcp 22")},
		`has an ACL "ssh" already`: {ssh, ssh},
		"ports": {{Direction: in, Description: "x",
			Accepts: []seedbed.SecurityRule{{Direction: in, Protocol: "tcp", Ports: "x"}}}},
		"61 ACLs: expected at most": many,
		"its rule is not one line":  {{Direction: in, Description: "x", Rule: "a\nb"}},
		"direction \"\" is unknown": {{Direction: "", Description: "x"}},
	} {
		n.ACLs = acls
		if err := n.CheckACLs(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %s", err, says)
		}
	}
	n.ACLs = []seedbed.NetworkACL{ssh}
	for says, change := range map[string]func(*seedbed.Network){
		"is direct, and no node is between": func(n *seedbed.Network) { n.Kind = seedbed.NetworkDirect },
		"would also cut its guests off": func(n *seedbed.Network) {
			n.Kind, n.Prefix, n.ACLs = seedbed.NetworkBridged, netip.Prefix{}, []seedbed.NetworkACL{drop}
		},
	} {
		n := n
		if change(&n); n.CheckACLs() == nil || !strings.Contains(n.CheckACLs().Error(), says) {
			t.Errorf("%v; want %s", n.CheckACLs(), says)
		}
	}
}
