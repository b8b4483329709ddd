package metadata

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

var goldenPaths = []string{
	"/", "/latest", "/latest/", "/latest/meta-data", "/latest/meta-data/",
	"/latest/meta-data/hostname", "/latest/meta-data/instance-id", "/latest/meta-data/local-hostname",
	"/latest/meta-data/local-ipv4", "/latest/meta-data/mac", "/latest/meta-data/instance-id/",
	"/latest/meta-data/public-keys", "/latest/meta-data/public-keys/",
	"/latest/meta-data/public-keys/0", "/latest/meta-data/public-keys/0/",
	"/latest/meta-data/public-keys/0/openssh-key", "/latest/meta-data/public-keys/1/openssh-key",
	"/latest/meta-data/public-keys/2", "/latest/meta-data/public-keys/0=admin@example.org",
	"/latest/user-data", "/latest/user-data/", "/latest/dynamic", "/latest/dynamic/",
	"/latest/dynamic/instance-identity", "/latest/dynamic/instance-identity/",
	"/latest/dynamic/instance-identity/document",
	"/1.0/meta-data/instance-id", "/2009-04-04/meta-data/instance-id", "/2099-12-31/meta-data/instance-id",
	"//latest//meta-data//instance-id", "/latest/meta-data/instance-id?x=y",
	"/Latest/meta-data/instance-id", "/latest/Meta-Data/", "/2009-4-4/meta-data/", "/1.1/", "/2009-04-04x/",
	"/latest/meta-data/../user-data", "/latest/meta-data/%69nstance-id", "/latest/api", "/latest/meta-data/ami-id",
	"/latest/meta-data/network/", "/favicon.ico", "/latest/meta-data/tags", "/latest/meta-data/tags/instance",
	"/latest/meta-data/tags/instance/cost%20center", "/latest/meta-data/tags/instance/a%3Ab", "/latest/meta-data/tags/instance/no",
	"/latest/meta-data/tags/instance/no%2Fpath", "/latest/meta-data/network/interfaces/macs/52%3A54%3A00%3A00%3A00%3A0a/mac",
	"/latest/meta-data/spot", "/latest/meta-data/public-ipv4", "/latest/meta-data/iam/info",
	"/openstack", "/openstack/", "/openstack/2018-08-27", "/openstack/2012-08-10/meta_data.json", "/openstack/2013-04-04/password/",
	"/openstack/1.0/meta_data.json", "/openstack/latest/meta-data", "/OpenStack", "/nocloud", "/nocloud/meta-data/",
	"/nocloud/latest/meta-data", "/seedbed/", "/seedbed/report/report-token-of-a",
}

// guestC is what guestA is not: on two networks, in security groups of its own, about to be interrupted, and with every option off
// its default that leaves GET as it is.
func guestC() seedbed.Guest {
	at := time.Date(2026, 10, 1, 8, 30, 0, 0, time.UTC)
	g := guestA()
	g.Project = "acme"
	g.NICs = append(g.NICs, seedbed.GuestNIC{ID: 103, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 0xc}, Network: "other",
		Addr:      netip.MustParseAddr("10.9.0.7"),
		Secondary: []netip.Addr{netip.MustParseAddr("10.9.0.8"), netip.MustParseAddr("fd12:3456:789a:1::40")},
		Groups:    []string{"acme/db"}})
	g.NICs[0].Groups = []string{"acme/ssh", "acme/web"}
	g.NICs[0].Floating = netip.MustParseAddr("203.0.113.16")
	g.NICs[0].Secondary = []netip.Addr{netip.MustParseAddr("10.99.0.40"), netip.MustParseAddr("10.99.0.41")}
	g.Options = seedbed.MetadataOptions{Tags: seedbed.MetadataDisabled, InstanceID: seedbed.InstanceIDUUID, TargetState: "Warmed:Running"}
	g.Action, g.Password, g.Arriving = seedbed.ActionShutdown, "posted==", true
	g.Spot = &seedbed.Spot{Action: "terminate", Time: at, Rebalance: at.Add(-time.Hour)}
	g.Expiry = &seedbed.Expiry{Time: at.Add(time.Hour), Action: seedbed.ExpiryRemove}
	g.Maintenance = []seedbed.Maintenance{
		{ID: "instance-event-00000000000000001", Code: "instance-stop", Description: "the disk moves", NotBefore: at,
			State: seedbed.MaintenanceActive},
		{ID: "instance-event-00000000000000002", Code: "system-reboot", Description: "new kernel", NotBefore: at,
			NotAfter: at.Add(time.Hour), State: seedbed.MaintenanceCompleted},
	}
	return g
}

// guestD is guestA without its NIC 0, and with NICs that jobs add and remove.
func guestD() seedbed.Guest {
	g := guestA()
	nic := func(id seedbed.NICID, index int, network, addr string, hidden bool) seedbed.GuestNIC {
		return seedbed.GuestNIC{ID: id, Index: index, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 1, byte(index)}, Network: network,
			Addr: netip.MustParseAddr(addr), Hidden: hidden}
	}
	g.NICs[0].Index = 1
	g.NICs = []seedbed.GuestNIC{nic(110, 0, "other", "10.9.0.30", true), g.NICs[0], nic(112, 2, "other", "10.9.0.32", true),
		nic(114, 4, "other", "10.9.0.34", false)}
	return g
}

// TestGoldenGuestIsWhole checks that guestC has a value in every field, because the golden files show
// no leaf without a value. TestGoldenTree adds the documents.
func TestGoldenGuestIsWhole(t *testing.T) {
	t.Parallel()
	g := reflect.ValueOf(guestC())
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		if g.Field(i).IsZero() && !slices.Contains([]string{"UserData", "VendorData"}, name) {
			t.Errorf("guestC has no %s: set it in guestA or guestC, so that the golden files show what is served of it", name)
		}
	}
}

// fullView is guestA with documents.
func fullView() View {
	s := stateOf(nil)
	return View{Guest: guestA(), Documents: seedbed.Documents{UserData: []byte("x"), VendorData: []byte("#cloud-config\n")},
		Networks: s.Networks, Site: s.Site}
}

// TestGoldenTree fixes every answer, byte for byte: what can be found by the listings of each
// dialect, and paths that cannot.
func TestGoldenTree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		guest seedbed.Guest
		docs  seedbed.Documents
	}{
		{"full", guestA(), seedbed.Documents{UserData: []byte("#!/bin/sh\r\necho \x00\xff\n"), VendorData: []byte("#cloud-config\n{}")}},
		{"busy", guestC(), seedbed.Documents{UserData: []byte{}, VendorData: []byte{0x1f, 0x8b, 8}}},
		{"bare", guestB(), seedbed.Documents{}},
		{"gap", guestD(), seedbed.Documents{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			s := stateWith(map[seedbed.InstanceID]seedbed.Documents{tt.guest.ID: tt.docs}, tt.guest)
			s.Maintenance = []seedbed.Maintenance{{ID: "instance-event-00000000000000003", Code: "system-maintenance", Description: "a new fan",
				NotBefore: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), State: seedbed.MaintenanceCanceled}}
			l.apply(s)
			c := l.client(tt.guest.Shown()[0].Addr)
			var b strings.Builder
			for _, path := range append(l.listed(c, "/latest/", "/openstack/latest/", "/nocloud/"), goldenPaths...) {
				r := l.do(c, "GET", path)
				fmt.Fprintf(&b, "GET %s\n%d %s\n%q\n\n", path, r.status, r.header.Get("Content-Type"), randomSeed.ReplaceAllString(r.body, "RANDOM"))
				checkShape(t, path, r)
				head := l.do(c, "HEAD", path)
				if head.status != r.status || head.length != r.length || head.body != "" {
					t.Errorf("HEAD %s: %d with length %d, GET: %d with %d", path, head.status, head.length, r.status, r.length)
				}
			}
			golden(t, filepath.Join("testdata", tt.name+".golden"), b.String())
		})
	}
}

// documentPath is where bytes are served as they are.
var documentPath = regexp.MustCompile(`/(user-data|user_data|vendor-data)/*$`)

// randomSeed is what is another each time: 512 bytes in base64.
var randomSeed = regexp.MustCompile(`[A-Za-z0-9+/]{683}=`)

// listed are the paths below some directories that their listings name, percent-encoded.
func (l *lab) listed(c *http.Client, dirs ...string) []string {
	l.t.Helper()
	var paths []string
	for _, dir := range dirs {
		paths = append(paths, dir)
		for _, line := range strings.Split(l.want(c, 200, "GET", dir).body, "\n") {
			name, _, key := strings.Cut(line, "=")
			path := dir + strings.ReplaceAll(url.PathEscape(name), "%2F", "/")
			switch {
			case strings.HasSuffix(line, "/"):
				paths = append(paths, l.listed(c, path)...)
			case key:
				paths = append(paths, path, path+"/openssh-key")
			case dir == "/latest/" && line != "user-data":
				paths = append(paths, l.listed(c, path+"/")...)
			default:
				paths = append(paths, path)
			}
		}
	}
	return paths
}

func checkShape(t *testing.T, path string, r reply) {
	t.Helper()
	if r.length != int64(len(r.body)) {
		t.Errorf("%s: Content-Length %d for %d bytes", path, r.length, len(r.body))
	}
	if got := r.header.Get("Server"); got != "EC2ws" {
		t.Errorf("%s: Server %q", path, got)
	}
	if r.header.Get("Content-Encoding") != "" || r.header.Get("Location") != "" {
		t.Errorf("%s: headers %v", path, r.header)
	}
	if r.status == http.StatusOK && !documentPath.MatchString(path) && strings.HasSuffix(r.body, "\n") {
		t.Errorf("%s: value ends in a line feed", path)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got; if this is right: go test ./metadata -run TestGoldenTree -update):\n%s", file, diff)
	}
}

// TestUserDataBytes serves awkward documents as they are.
func TestUserDataBytes(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for name, doc := range map[string][]byte{
		"empty": {}, "nul": {0}, "gzip": {0x1f, 0x8b, 8, 0, 0}, "base64": []byte("dGVzdA=="),
		"crlf": []byte("a\r\n\r\nb\n\n"), "big": big, "html": []byte("<html>"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: doc}, guestA()))
			r := l.want(l.client(addrA), 200, "GET", "/latest/user-data", "Accept-Encoding", "gzip, deflate")
			if r.body != string(doc) {
				t.Errorf("%d bytes came as %d others", len(doc), len(r.body))
			}
			if got := r.header.Get("Content-Type"); got != typeData {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
}

func TestKeyNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ key, want string }{
		{keyA, "admin@example.org"},
		{"ssh-rsa AAAAB3", ""},
		{"ssh-rsa AAAAB3 my key", "my-key"},
		{"ssh-rsa AAAAB3 a=b/", "a-b-"},
		{`command="echo ssh-rsa x",no-pty ssh-rsa AAAAB3 who`, "who"},
		{"sk-ssh-ed25519@openssh.com AAAAG yubi", "yubi"},
		{"ssh-rsa AAAAB3 käse", "k--se"},
		{"ssh-rsa AAAAB3 " + strings.Repeat("x", 100), strings.Repeat("x", maxKeyName)},
		{"nonsense", ""},
	} {
		if got := keyName(tt.key); got != tt.want {
			t.Errorf("keyName(%q) = %q, want %q", tt.key, got, tt.want)
		}
	}
	body, _, _ := Render(View{Guest: seedbed.Guest{SSHKeys: []string{
		"ssh-rsa AAAA1 same\nssh-rsa AAAA2 same", "# comment", "", "ssh-rsa AAAA3\r\n"}}}, "/latest/meta-data/public-keys/")
	got := string(body)
	if want := "0=same\n1=same-1\n2=key-2"; got != want {
		t.Errorf("listing %q, want %q", got, want)
	}
}

// FuzzPath: no path panics, and what a listing names is there.
func FuzzPath(f *testing.F) {
	for _, p := range goldenPaths {
		f.Add(p)
	}
	view := fullView()
	f.Fuzz(func(t *testing.T, path string) {
		body, mediaType, ok := Render(view, path)
		if ok == (mediaType == "") && ok {
			t.Fatalf("%q: ok %v with type %q", path, ok, mediaType)
		}
		where := locate(path)
		a := newRecord(view, func(string) *seedbed.Network { return nil }).at(where)
		if a.node == nil || a.node.value != nil {
			return
		}
		for _, line := range strings.Split(string(body), "\n") {
			name, _, _ := strings.Cut(line, "=")
			if _, _, found := Render(view, path+"/"+url.PathEscape(strings.TrimSuffix(name, "/"))); ok && !found {
				t.Fatalf("%q lists %q, which is not there", path, line)
			}
		}
	})
}
