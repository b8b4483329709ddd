package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestAWSSDK lets Amazon's own client talk to the server, token and all.
func TestAWSSDK(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte("#cloud-config\n")}, guestA()))
	ctx := context.Background()
	c := imds.New(imds.Options{Endpoint: "http://" + l.addr, HTTPClient: l.client(addrA)})

	doc, err := c.GetInstanceIdentityDocument(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if doc.InstanceID != idA.EC2() || doc.PrivateIP != addrA.String() || doc.ImageID != "debian-12" {
		t.Errorf("document %+v", doc.InstanceIdentityDocument)
	}
	if r, err := c.GetRegion(ctx, nil); err != nil || r.Region != guestA().Region {
		t.Errorf("region %v, %v", r, err)
	}
	read := func(path string) string {
		t.Helper()
		out, err := c.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer out.Content.Close()
		b, err := io.ReadAll(out.Content)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := read("mac"); got != macA.String() {
		t.Errorf("mac %q", got)
	}
	if got := read("public-keys/0/openssh-key"); got != keyA {
		t.Errorf("key %q", got)
	}
	ud, err := c.GetUserData(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ud.Content.Close()
	if b, _ := io.ReadAll(ud.Content); string(b) != "#cloud-config\n" {
		t.Errorf("user-data %q", b)
	}
	if _, err := c.GetMetadata(ctx, &imds.GetMetadataInput{Path: "public-ipv4"}); err == nil {
		t.Error("a leaf without a value was found")
	}
	puts := 0
	for _, e := range l.seen(seedbed.GuestAccess) {
		if e.Method == "PUT" {
			puts++
		}
	}
	if puts != 1 {
		t.Errorf("the client asked for %d tokens, want 1", puts)
	}
}

// crawler is cloud-init's MetadataMaterializer (sources/helpers/ec2.py): each directory's
// sub-directories first, then its leaves, one connection each.
type crawler struct {
	t     *testing.T
	l     *lab
	c     *http.Client
	token string
}

func (c *crawler) fetch(path string) string {
	c.t.Helper()
	headers := []string{"Accept-Encoding", "gzip, deflate", "User-Agent", "Cloud-Init/22.4.2", "Connection", "close"}
	if c.token != "" {
		headers = append(headers, tokenHeader, c.token)
	}
	return c.l.want(c.c, 200, "GET", path, headers...).body
}

func (c *crawler) materialize(base string) map[string]any {
	c.t.Helper()
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	out := map[string]any{}
	var dirs []string
	leaves := map[string]string{}
	for _, line := range strings.Split(c.fetch(base), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "security-credentials") {
			continue
		}
		if name, ok := strings.CutSuffix(line, "/"); ok {
			dirs = append(dirs, name)
			continue
		}
		if n, name, ok := strings.Cut(line, "="); ok {
			if _, err := strconv.Atoi(n); err == nil {
				leaves[name] = n + "/openssh-key"
				continue
			}
		}
		leaves[line] = line
	}
	for _, d := range dirs {
		out[d] = c.materialize(base + d)
	}
	for name, path := range leaves {
		if _, ok := out[name]; ok {
			c.t.Errorf("%s lists %q twice", base, name)
		}
		// url_helper.combine_url: urllib.parse.quote with "/:" as safe.
		out[name] = decodeLeaf(c.fetch(base + strings.NewReplacer("%3A", ":", "%2F", "/").Replace(url.PathEscape(path))))
	}
	return out
}

// decodeLeaf is MetadataLeafDecoder.
func decodeLeaf(v string) any {
	if strings.HasPrefix(v, "{") && strings.HasSuffix(v, "}") {
		var out any
		if json.Unmarshal([]byte(v), &out) == nil {
			return out
		}
	}
	if strings.Contains(v, "\n") {
		return strings.Split(v, "\n")
	}
	return v
}

// TestCloudInitCrawl makes the requests of DataSourceEc2 in their order, on both platforms.
func TestCloudInitCrawl(t *testing.T) {
	t.Parallel()
	for _, aws := range []bool{false, true} {
		t.Run(fmt.Sprintf("aws=%v", aws), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte("#cloud-config\n{}")}, guestA()))
			c := &crawler{t: t, l: l, c: l.client(addrA)}
			if aws {
				c.token = l.want(c.c, 200, "PUT", tokenPath, ttlHeader, "21600").body
			}
			if got := c.fetch("/2009-04-04/meta-data/instance-id"); got != idA.EC2() {
				t.Errorf("instance-id %q", got)
			}
			c.fetch("/2021-03-23/meta-data/instance-id")
			if got := c.fetch("/2021-03-23/user-data"); got != "#cloud-config\n{}" {
				t.Errorf("user-data %q", got)
			}
			got := c.materialize("/2021-03-23/meta-data/")
			want := map[string]any{
				"ami-id": "debian-12", "ami-launch-index": "0", "ami-manifest-path": "(unknown)",
				"block-device-mapping": map[string]any{"ami": "vda", "ebs1": "vdb", "root": "/dev/vda"},
				"events":               map[string]any{"maintenance": map[string]any{"history": "[]", "scheduled": "[]"}},
				"hostname":             "web-1", "local-hostname": "web-1", "name": "web-1", "instance-id": idA.EC2(),
				"instance-action": "none", "instance-life-cycle": "on-demand", "instance-type": "small", "profile": "small",
				"local-ipv4": addrA.String(), "mac": macA.String(),
				"network": map[string]any{"interfaces": map[string]any{"macs": map[string]any{macA.String(): map[string]any{
					"device-number": "0", "interface-id": stableID("eni", macA.String()), "local-hostname": "web-1",
					"local-ipv4s": addrA.String(), "mac": macA.String(),
					"network-card": "0", "network-card-index": "0", "owner-id": "123456789012",
					"security-group-ids": stableID("sg", "open"), "security-groups": "open",
					"subnet-id": stableID("subnet", guestA().NICs[0].Network), "vpc-id": stableID("vpc", guestA().NICs[0].Network),
					"subnet-ipv4-cidr-block": "127.0.1.0/24", "vpc-ipv4-cidr-block": "127.0.1.0/24", "vpc-ipv4-cidr-blocks": "127.0.1.0/24",
				}}}},
				"placement": map[string]any{
					"availability-zone": "seedbed-local", "availability-zone-id": zoneID(&record{guest: guestA()}),
					"host-id": stableID("h", "node1"), "region": "seedbed"},
				"reservation-id": stableID("r", string(idA)), "security-groups": "open",
				"services":    map[string]any{"domain": "seedbed.example", "partition": "seedbed"},
				"tags":        map[string]any{"instance": map[string]any{"Name": "web 1", "cost center": "42", "a:b": "c"}},
				"public-keys": map[string]any{"admin@example.org": keyA, "a-b-c-": guestA().SSHKeys[1]},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("meta-data (-want +got):\n%s", diff)
			}
			identity := c.materialize("/2021-03-23/dynamic/instance-identity")
			doc, _ := identity["document"].(map[string]any)
			if doc["instanceId"] != idA.EC2() {
				t.Errorf("identity %v", identity)
			}
			if n := len(l.seen(seedbed.GuestUserData)); n != 1 {
				t.Errorf("%d user-data events", n)
			}
		})
	}
}

// TestEverythingListedIsThere crawls from each version of the list at /.
func TestEverythingListedIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA(), guestB()))
	for _, from := range []seedbed.Guest{guestA(), guestB()} {
		c := &crawler{t: t, l: l, c: l.client(from.NICs[0].Addr)}
		for _, version := range strings.Split(c.fetch("/"), "\n") {
			c.materialize("/" + version)
			c.materialize("/" + version + "/meta-data")
			c.materialize("/" + version + "/dynamic")
		}
	}
}

// TestCloudbaseInit asks what cloudbase-init asks on Windows, in its order, by both of its metadata services that use HTTP: EC2Service
// (cloudbaseinit/metadata/services/ec2service.py), which sends no tokens, and HttpService (httpservice.py, baseopenstackservice.py).
func TestCloudbaseInit(t *testing.T) {
	t.Parallel()
	script := "#ps1_sysnative\r\nexit 0\r\n"
	l := newLab(t, nil)
	l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte(script)}, guestA()))
	c := l.client(addrA)
	get := func(path string) string {
		t.Helper()
		return l.want(c, 200, "GET", path, "User-Agent", "python-requests/2.31.0", "Accept-Encoding", "gzip, deflate").body
	}
	t.Run("EC2", func(t *testing.T) {
		const base = "/2009-04-04/meta-data/"
		var keys []string
		name := get(base + "local-hostname")
		id := get(base + "instance-id")
		for _, line := range strings.Split(get(base+"public-keys"), "\n") {
			index, _, _ := strings.Cut(line, "=") // it splits at each one
			if strings.Count(line, "=") != 1 {
				t.Errorf("the line %q of public-keys has not one '='", line)
			}
			keys = append(keys, get(base+"public-keys/"+index+"/openssh-key"))
		}
		got := []any{name, id, keys, get("/2009-04-04/user-data")}
		if d := cmp.Diff([]any{guestA().Hostname(), idA.EC2(), guestA().SSHKeys, script}, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("OpenStack", func(t *testing.T) {
		const base = "/openstack/latest/"
		var meta struct {
			UUID, Hostname string
			PublicKeys     map[string]string `json:"public_keys"`
		}
		var network struct {
			Links []struct {
				ID, Type string
				MAC      string `json:"ethernet_mac_address"`
			}
			Networks []struct{ Link, Type string }
		}
		for path, into := range map[string]any{"meta_data.json": &meta, "network_data.json": &network} {
			if err := json.Unmarshal([]byte(get(base+path)), into); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		if meta.UUID == "" || meta.Hostname == "" || len(meta.PublicKeys) != len(guestA().SSHKeys) {
			t.Errorf("meta_data.json: %+v", meta)
		}
		if len(network.Links) != 1 || network.Links[0].MAC != macA.String() || len(network.Networks) == 0 ||
			network.Networks[0].Link != network.Links[0].ID {
			t.Errorf("network_data.json: %+v", network)
		}
		if got := get(base + "user_data"); got != script {
			t.Errorf("user_data %q", got)
		}
		if was := get(passwordPath); was != "" { // it posts only then
			t.Errorf("the password is %q before it was posted", was)
		}
		for _, want := range []int{200, 409} { // again after a boot: it takes 409 for the end of the matter
			if r := l.post(c, passwordPath, "ZW5jcnlwdGVk"); r.status != want {
				t.Errorf("a post of the password: %d, want %d", r.status, want)
			}
		}
	})
}
