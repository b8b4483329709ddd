package metadata

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestCrawlIsConsistent: whatever a client asks for first, it sees one state for a minute, in each
// dialect.
func TestCrawlIsConsistent(t *testing.T) {
	t.Parallel()
	for name, first := range map[string][]string{
		"EC2 listing": {"GET", "/2009-04-04/meta-data/"}, "token": {"PUT", tokenPath},
		"EC2 user-data":      {"GET", "/2009-04-04/user-data"},
		"OpenStack versions": {"GET", "/openstack"}, "OpenStack": {"GET", "/openstack/latest/meta_data.json"},
		"NoCloud": {"GET", "/nocloud/network-config"}, "NoCloud seed": {"GET", "/nocloud/meta-data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			docs := func(text string) map[seedbed.InstanceID]seedbed.Documents {
				return map[seedbed.InstanceID]seedbed.Documents{idA: {UserData: []byte(text), VendorData: []byte(text)}}
			}
			l.apply(stateWith(docs("old"), guestA()))
			c := l.client(addrA)
			l.want(c, 200, first[0], first[1], ttlHeader, "60")
			changed := guestA()
			changed.Name = "new-name"
			s := stateWith(docs("new"), changed)
			s.Site.Domain = "new.example"
			l.apply(s)
			check := func(word, name, domain string) {
				t.Helper()
				for path, want := range map[string]string{
					"/latest/user-data": word, "/openstack/latest/user_data": word, "/nocloud/user-data": word, "/nocloud/vendor-data": word,
					"/openstack/latest/vendor_data.json": `{"cloud-init":"` + word + `"}`,
					"/latest/meta-data/hostname":         name, "/latest/meta-data/services/domain": domain,
				} {
					if got := l.want(c, 200, "GET", path).body; got != want {
						t.Errorf("%s: %q, want %q", path, got, want)
					}
				}
				if got := l.want(c, 200, "GET", "/openstack/latest/meta_data.json").body; !strings.Contains(got, `"hostname":"`+name+`"`) {
					t.Errorf("meta_data.json: %s, want the name %s", got, name)
				}
			}
			l.pass(pinFor - time.Second)
			check("old", "web-1", "seedbed.example")
			l.pass(time.Second)
			check("new", "new-name", "new.example")
		})
	}
}

// TestUserDataIsTold of each dialect.
func TestUserDataIsTold(t *testing.T) {
	t.Parallel()
	for path, status := range map[string]int{"/openstack/2012-08-10/user_data": 404, "/nocloud/user-data": 200, "/latest/user-data": 404} {
		l := newLab(t, nil)
		l.apply(stateOf(nil, guestA()))
		c := l.client(addrA)
		l.want(c, status, "GET", path)
		l.want(c, status, "GET", path)
		if e := l.seen(seedbed.GuestUserData); len(e) != 1 || e[0].Path != path || e[0].Status != status {
			t.Errorf("%s: events %+v", path, e)
		}
	}
}

// TestNoCloudIsYAML: what is in the record comes out of a YAML parser.
func TestNoCloudIsYAML(t *testing.T) {
	t.Parallel()
	g := guestA()
	g.Profile, g.Zone = "it's: a # \"trap\"", "- <zone>"
	body, _, _ := Render(View{Guest: g}, "/nocloud/meta-data")
	var got map[string]any
	if err := yaml.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	want := map[string]any{"instance-id": idA.EC2(), "local-hostname": "web-1", "availability-zone": g.Zone, "region": "seedbed",
		"instance-type": g.Profile, "public-keys": map[string]any{"admin@example.org": keyA, "a-b-c-": g.SSHKeys[1]}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("meta-data (-want +got):\n%s", diff)
	}
}

// TestStaticNetwork: where Seedbed gives no DHCP, OpenStack's network_data has the address, and it has secondary ones anyway.
func TestStaticNetwork(t *testing.T) {
	t.Parallel()
	networks := stateOf(nil).Networks
	g := guestC()
	g.NICs[0], g.NICs[1] = g.NICs[1], g.NICs[0]
	for i := range networks {
		networks[i].PeerPrefixes = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}
	}
	body, _, _ := Render(View{Guest: g, Networks: networks}, "/openstack/latest/network_data.json")
	var got struct {
		Networks []map[string]any
		Services []map[string]any
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	dns := map[string]any{"type": "dns", "address": "10.9.0.53"}
	want := []map[string]any{
		{"id": "network0", "network_id": stableID("subnet", "other"), "link": "nic0", "type": "ipv4", "ip_address": "10.9.0.7",
			"netmask": "255.255.0.0",
			"routes": []any{map[string]any{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.9.0.1"},
				map[string]any{"network": "10.7.0.0", "netmask": "255.255.255.0", "gateway": "10.9.0.1"}}, "services": []any{dns}},
		{"id": "network0-secondary0", "network_id": stableID("subnet", "other"), "link": "nic0", "type": "ipv4", "ip_address": "10.9.0.8",
			"netmask": "255.255.0.0"},
		{"id": "network0-6", "network_id": stableID("subnet", "other"), "link": "nic0", "type": "ipv6",
			"ip_address": "fd12:3456:789a:1:5054:ff:fe00:c", "netmask": "ffff:ffff:ffff:ffff::"},
		{"id": "network0-secondary1", "network_id": stableID("subnet", "other"), "link": "nic0", "type": "ipv6",
			"ip_address": "fd12:3456:789a:1::40", "netmask": "ffff:ffff:ffff:ffff::"},
		{"id": "network1", "network_id": stableID("subnet", "default"), "link": "nic1", "type": "ipv4_dhcp"},
		{"id": "network1-secondary0", "network_id": stableID("subnet", "default"), "link": "nic1", "type": "ipv4", "ip_address": "10.99.0.40",
			"netmask": "255.255.255.0"},
		{"id": "network1-secondary1", "network_id": stableID("subnet", "default"), "link": "nic1", "type": "ipv4", "ip_address": "10.99.0.41",
			"netmask": "255.255.255.0"},
	}
	if diff := cmp.Diff(want, got.Networks); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]map[string]any{dns}, got.Services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	unknown, _, _ := Render(View{Guest: g}, "/openstack/latest/network_data.json")
	if string(unknown) != `{"links":[],"networks":[],"services":[]}` {
		t.Errorf("of unknown networks: %s", unknown)
	}
	if _, _, ok := Render(View{Guest: g}, "/latest/meta-data/network/"); ok {
		t.Error("the tree has NICs of unknown networks")
	}
}
