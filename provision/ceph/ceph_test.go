package ceph

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/pooltag"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, r := range []role{roleImage, roleVolume} {
		for _, of := range []string{"a.b-c", "acme/a.b-c"} {
			name := rbdOf(r, of)
			if got, short, ok := split(name); !ok || got != r || short != of || strings.ContainsAny(name, "/@") {
				t.Errorf("split(%q): %q, %q, %v", name, got, short, ok)
			}
		}
	}
	for _, other := range []string{"", "a", "seedbed", "seedbed-volume.", "seedbed-building.n.X", "xseedbed-volume.a"} {
		if _, _, ok := split(other); ok {
			t.Errorf("split(%q) is ok", other)
		}
	}
	for name, want := range map[string]string{
		buildingName("n"):         "n",
		buildingName("n.example"): "n.example",
		"seedbed-building.n.":     "",
		"seedbed-building.n":      "",
		"seedbed-building..X":     "",
		"seedbed-volume.n.X":      "",
	} {
		if got, ok := builder(name); got != want || ok != (want != "") {
			t.Errorf("builder(%q): %q, %v", name, got, ok)
		}
	}
}

func TestTag(t *testing.T) {
	t.Parallel()
	want := tag{
		Seedbed: pooltag.Version, Role: roleVolume, Name: "v", State: stateReady, Node: "n", Job: "j", Instance: "i", Image: "base", Size: 512,
	}
	text, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseTag("seedbed-volume.v", text)
	if err != nil || got == nil {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
	if !isTagOf(got, "seedbed-volume.v") || isTagOf(got, "seedbed-image.v") || isTagOf(nil, "seedbed-volume.") {
		t.Error("a tag is taken for another's")
	}
	for _, foreign := range []string{"", "x", "[]", "{}", `{"seedbed":"yes"}`, `{"other":1}`} {
		if got, err := parseTag("x", foreign); got != nil || err != nil {
			t.Errorf("parseTag(%q): %v, %v", foreign, got, err)
		}
	}
	if _, err := parseTag("x", `{"seedbed":2}`); !errors.Is(err, seedbed.ErrVersion) {
		t.Errorf("a newer tag: %v", err)
	}
}

func FuzzParseTag(f *testing.F) {
	f.Add(`{"seedbed":1,"role":"image","name":"a"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseTag("x", text); got != nil && (err != nil || got.Seedbed != pooltag.Version) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	if got, err := parseText(encodeTexts("ä\x00b", "more")); got != "ä\x00b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	size := append([]byte{22}, encodeNumber(9<<20+512)...)
	features, snapshots := append(encodeNumber(61), encodeNumber(1)...), append(encodeNumber(7), 2, 0, 0, 0)
	got, err := parseShape(size, features, snapshots)
	if diff := cmp.Diff(shape{order: 22, size: 9<<20 + 512, features: 61, snapshots: 2}, got, cmp.AllowUnexported(shape{})); diff != "" ||
		err != nil {
		t.Error(diff, err)
	}
	for bytes, want := range map[uint64]uint64{0: 0, 1: 1, 4 << 20: 1, 4<<20 + 1: 2, 1 << 50: 1 << 28} {
		if n := got.objects(bytes); n != want {
			t.Errorf("%d bytes are in %d objects; want %d", bytes, n, want)
		}
	}
	for name, cut := range map[string][3][]byte{
		"order": {append([]byte{64}, size[1:]...), features, snapshots}, "size": {size[:8], features, snapshots},
		"features": {size, features[:7], snapshots}, "snapshots": {size, features, snapshots[:11]}, "all": {},
	} {
		if got, err := parseShape(cut[0], cut[1], cut[2]); !errors.Is(err, errAnswer) {
			t.Errorf("bad %s: %+v, %v", name, got, err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(encodeTexts("id"), encodeTexts("id", "more"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if text, err := parseText(a); err == nil && string(encodeTexts(text)) != string(a[:4+len(text)]) {
			t.Errorf("%q of %q", text, a)
		}
		if s, err := parseShape(a, b, a); err == nil && (len(a) < 12 || len(b) < 8 || s.order != a[0] || s.objects(1) != 1) {
			t.Errorf("%+v of %q and %q", s, a, b)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{Name: "fast", Pool: "vms", User: "seedbed", Node: "n", Lock: "/run/lock"}
	got, err := good.complete()
	if err != nil || got.ConfFile != "/etc/ceph/ceph.conf" || got.Keyring != "/etc/ceph/ceph.client.seedbed.keyring" || got.seconds() != 15 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, want := got.qemuTarget("seedbed-image.a"),
		"rbd:vms/seedbed-image.a:id=seedbed:conf=/etc/ceph/ceph.conf:keyring=/etc/ceph/ceph.client.seedbed.keyring:client_mount_timeout=15:rados_mon_op_timeout=15:rados_osd_op_timeout=30"; got != want {
		t.Errorf("target %q; want %q", got, want)
	}
	odd := got
	odd.ConfFile = `/a:b=c@d\e`
	if got := odd.qemuTarget("x"); !strings.Contains(got, `conf=/a\:b\=c\@d\\e:`) {
		t.Errorf("target %q", got)
	}
	for name, change := range map[string]func(*Config){
		"no name":            func(c *Config) { c.Name = "" },
		"no pool":            func(c *Config) { c.Pool = "" },
		"options in a pool":  func(c *Config) { c.Pool = "a:b=c" },
		"options in a user":  func(c *Config) { c.User = "a:key=b" },
		"no node":            func(c *Config) { c.Node = "" },
		"no lock":            func(c *Config) { c.Lock = "" },
		"relative conf file": func(c *Config) { c.ConfFile = "ceph.conf" },
		"NUL in the keyring": func(c *Config) { c.Keyring = "/a\x00b" },
	} {
		c := good
		change(&c)
		if _, err := c.complete(); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%s: %v; want ErrInvalid", name, err)
		}
	}
}

// goldenSecret is SecretID("default", "seedbed").
const goldenSecret = "9fdc4bfe-1209-5823-b443-3138701af7d5"

func TestSecretIDIsStable(t *testing.T) {
	t.Parallel()
	// Domains that are defined name it: it must never change.
	if got, want := SecretID("default", "seedbed"), SecretID("default", "seedbed"); got != want || got == SecretID("default", "other") {
		t.Errorf("%s, %s", got, want)
	}
	if got, want := SecretID("default", "seedbed"), goldenSecret; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestParseRoom(t *testing.T) {
	t.Parallel()
	answer := `{"stats":{},"pools":[{"name":"other","id":1,"stats":{"stored":1,"max_avail":2}},{"name":"vms","id":2,"stats":{"stored":100,"max_avail":900}},{"name":"new","stats":{"stored":0,"max_avail":0}},
		{"name":"half","stats":{"stored":100,"max_avail":900,"quota_bytes":500}},{"name":"over","stats":{"stored":100,"max_avail":900,"quota_bytes":50}},
		{"name":"wide","stats":{"stored":100,"max_avail":900,"quota_bytes":5000}}]}`
	for _, c := range []struct {
		pool       string
		size, free seedbed.Bytes
		known      bool
	}{{"vms", 1000, 900, true}, {"half", 500, 400, true}, {"over", 100, 0, true}, {"wide", 1000, 900, true}, {"new", 0, 0,
		false}, {"none", 0, 0, false}} {
		size, free, known, err := parseRoom([]byte(answer), c.pool)
		if size != c.size || free != c.free || known != c.known || err != nil {
			t.Errorf("%s: %d, %d, %v, %v", c.pool, size, free, known, err)
		}
	}
	if _, _, _, err := parseRoom([]byte("x"), "vms"); err == nil {
		t.Error("no error")
	}
}

func TestParseFull(t *testing.T) {
	t.Parallel()
	answer := `[{"pool_name":"vms","flags":1,"flags_names":"hashpspool,selfmanaged_snaps"},
		{"pool_name":"quota","flags":1027,"flags_names":"hashpspool,full,selfmanaged_snaps,full_quota"},
		{"pool_name":"full","flags":3,"flags_names":"hashpspool,full"},
		{"pool_name":"near","flags":3,"flags_names":"hashpspool,nearfull,backfillfull"}]`
	for pool, want := range map[string]bool{"vms": false, "quota": true, "full": true, "near": false, "none": false} {
		if got, err := parseFull([]byte(answer), pool); got != want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", pool, got, err, want)
		}
	}
	if _, err := parseFull([]byte("{}"), "vms"); err == nil {
		t.Error("no error")
	}
}

func TestParseMonitors(t *testing.T) {
	t.Parallel()
	answer := `{"mons":[
		{"name":"a","public_addrs":{"addrvec":[{"type":"v2","addr":"192.0.2.1:3300","nonce":0},{"type":"v1","addr":"192.0.2.1:6789","nonce":0}]}},
		{"name":"b","public_addrs":{"addrvec":[{"type":"v1","addr":"192.0.2.2:6789","nonce":0}]}},
		{"name":"c","public_addrs":{"addrvec":[{"type":"v1","addr":"[2001:db8::1]:6789"},{"type":"v2","addr":"[2001:db8::1]:3300"}]}}]}`
	got, err := parseMonitors([]byte(answer))
	if want := "192.0.2.1:3300,192.0.2.2:6789,[2001:db8::1]:3300"; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"", "{}", `{"mons":[{"name":"a"}]}`} {
		if got, err := parseMonitors([]byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

type code int

func (c code) Error() string  { return "code" }
func (c code) ErrorCode() int { return int(c) }

func TestExplain(t *testing.T) {
	t.Parallel()
	for c, want := range map[code]error{
		-110: seedbed.ErrUnavailable, -108: seedbed.ErrUnavailable, -1: seedbed.ErrForbidden, -13: seedbed.ErrForbidden,
		-28: seedbed.ErrFull, -16: seedbed.ErrInUse, -39: seedbed.ErrInUse,
	} {
		if err := explain("clone", c); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "clone: ") {
			t.Errorf("%d: %v", c, err)
		}
	}
	if err := explain("clone", code(-22)); !errors.Is(err, code(-22)) {
		t.Errorf("an error of no kind: %v", err)
	}
	if explain("clone", nil) != nil {
		t.Error("nil is explained")
	}
}
