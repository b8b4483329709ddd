package mapper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

var (
	aToken = strings.Repeat("a", 26)
	anRBD  = RBD{Pool: "vms", Image: "seedbed-volume.v", User: "seedbed", Conf: "/etc/ceph/ceph.conf", Keyring: "/etc/ceph/k"}
)

func TestArguments(t *testing.T) {
	t.Parallel()
	h := &Host{dir: "/run/m"}
	rbd := &entry{Token: aToken, Volume: Volume{RBD: &anRBD}}
	file := &entry{Token: aToken, Volume: Volume{File: "/pool/v,1.qcow2"}}
	must := func(args []string, err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return args
	}
	mount := `{"id":"disk","mountpoint":"/run/m/` + aToken + `/disk","node-name":"disk","type":"fuse","writable":true}`
	for _, c := range []struct {
		name string
		got  []string
		want []string
	}{
		{"krbd maps", kernelRBD{"krbd"}.mapArgs(anRBD), []string{"device", "map", "-t", "krbd", "--exclusive",
			"--conf", "/etc/ceph/ceph.conf", "--id", "seedbed", "--keyring", "/etc/ceph/k", "vms/seedbed-volume.v"}},
		{"rbd-nbd maps", kernelRBD{"nbd"}.mapArgs(anRBD)[:4], []string{"device", "map", "-t", "nbd"}},
		{"krbd unmaps", kernelRBD{"krbd"}.unmapArgs("/dev/rbd0", false), []string{"device", "unmap", "-t", "krbd", "/dev/rbd0"}},
		{"rbd-nbd unmaps, by force or not", kernelRBD{"nbd"}.unmapArgs("/dev/nbd0", true), []string{"device", "unmap", "-t", "nbd", "/dev/nbd0"}},
		{"krbd unmaps by force", kernelRBD{"krbd"}.unmapArgs("/dev/rbd0", true),
			[]string{"device", "unmap", "-t", "krbd", "-o", "force", "/dev/rbd0"}},
		{"qemu-nbd", (&networkDisk{h}).connectArgs(file, "/dev/nbd3"), []string{"--connect=/dev/nbd3", "--image-opts",
			"--cache=writeback", "--discard=unmap", "--pid-file=/run/m/" + aToken + "/pid",
			"driver=nbd,export=disk,server.type=fd,server.str=3"}},
		{"reader", must(readerArgs(file)), []string{"--daemonize",
			"--blockdev", `{"discard":"unmap","driver":"file","filename":"/pool/v,1.qcow2","node-name":"file"}`,
			"--blockdev", `{"discard":"unmap","driver":"qcow2","file":"file","node-name":"disk"}`,
			"--nbd-server", "addr.type=fd,addr.str=3",
			"--export", "type=nbd,id=disk-" + aToken + ",node-name=disk,name=disk,writable=on"}},
		{"storage daemon on RBD", must((&fuse{h: h, rbd: true}).args(rbd)), []string{"--daemonize",
			"--object", "secret,id=key,format=base64,file=/run/m/" + aToken + "/key",
			"--blockdev", `{"conf":"/etc/ceph/ceph.conf","discard":"unmap","driver":"rbd",` +
				`"image":"seedbed-volume.v","key-secret":"key","node-name":"disk","pool":"vms","user":"seedbed"}`,
			"--export", mount}},
		{"storage daemon on a file", must((&fuse{h: h}).args(file)), []string{"--daemonize",
			"--blockdev", `{"discard":"unmap","driver":"nbd","export":"disk","node-name":"disk","server":{"str":"3","type":"fd"}}`,
			"--export", mount}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, c.got); d != "" {
				t.Errorf("arguments (-want +got):\n%s", d)
			}
		})
	}
}

func TestFindMapped(t *testing.T) {
	t.Parallel()
	const (
		krbd = `[{"id":"0","pool":"vms","namespace":"","name":"other","snap":"-","device":"/dev/rbd0"},
			{"id":"1","pool":"vms","namespace":"","name":"seedbed-volume.v","snap":"s","device":"/dev/rbd1"},
			{"id":"2","pool":"vms","namespace":"n","name":"seedbed-volume.v","snap":"-","device":"/dev/rbd2"},
			{"id":"3","pool":"two","namespace":"","name":"seedbed-volume.v","snap":"-","device":"/dev/rbd3"},
			{"id":"4","pool":"vms","namespace":"","name":"seedbed-volume.v","snap":"-","device":"/dev/rbd4"}]`
		nbd = `[{"id":4711,"pool":"vms","namespace":"","image":"seedbed-volume.v","snap":"-","device":"/dev/nbd0"}]`
	)
	for _, c := range []struct{ name, answer, device, problem string }{
		{"krbd", krbd, "/dev/rbd4", ""},
		{"rbd-nbd", nbd, "/dev/nbd0", ""},
		{"none", `[]`, "", ""},
		{"nothing said", "\n", "", ""},
		{"not JSON", "rbd: sysfs", "", "rbd device list"},
		{"odd device", `[{"pool":"vms","name":"seedbed-volume.v","device":"rbd0"}]`, "", "below /dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := findMapped([]byte(c.answer), anRBD)
			if got != c.device || c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.device, c.problem)
			}
		})
	}
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	const text = `36 35 7:1 / /mnt/a\040b rw,noatime master:1 - ext4 /dev/loop1 rw,errors=continue
40 35 0:61 /sub /mnt/c rw - btrfs /dev/loop2 rw
bad line
41 35 0:5 / /dev rw shared:2
`
	want := []mount{{"7:1", "/mnt/a b", "/dev/loop1"}, {"0:61", "/mnt/c", "/dev/loop2"}}
	if d := cmp.Diff(want, parseMounts(text), cmp.AllowUnexported(mount{})); d != "" {
		t.Errorf("mounts (-want +got):\n%s", d)
	}
}

func TestParseEntry(t *testing.T) {
	t.Parallel()
	whole := `{"version":1,"token":"` + aToken + `","way":"krbd","pool":"p","name":"v","file":"/v"}`
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"whole", whole, nil},
		{"later version", strings.Replace(whole, `"version":1`, `"version":2`, 1), seedbed.ErrVersion},
		{"other token", strings.Replace(whole, aToken, strings.Repeat("b", 26), 1), seedbed.ErrInvalid},
		{"no volume", strings.Replace(whole, `,"file":"/v"`, "", 1), seedbed.ErrInvalid},
		{"too long", whole + strings.Repeat(" ", entryLimit), seedbed.ErrInvalid},
	} {
		if _, err := parseEntry(aToken, []byte(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v; want %v", c.name, err, c.want)
		}
	}
	if _, err := parseEntry("../x", []byte(strings.Replace(whole, aToken, "../x", 1))); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a token that climbs: %v", err)
	}
	if _, err := parseEntry(aToken, []byte("{")); err == nil {
		t.Error("half a record was read")
	}
}

func TestFreeNetworkDisks(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	for name, size := range map[string]string{"nbd10": "0\n", "nbd2": "0\n", "nbd0": "0\n", "nbd1": "2048\n", "nbd1p1": "0\n"} {
		if err := os.MkdirAll(filepath.Join(sys, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sys, name, "size"), []byte(size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(sys, "nbd0", "pid"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := freeNetworkDisks(sys)
	if d := cmp.Diff([]string{"/dev/nbd2", "/dev/nbd10"}, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestToolError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`qemu-storage-daemon: Failed to get "write" lock`: seedbed.ErrInUse,
		"rbd device: (16) Device or resource busy":        seedbed.ErrInUse,
		"no way": nil,
	} {
		err := toolError(fmt.Errorf("%s", text))
		if want != nil && !errors.Is(err, want) || err.Error() != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	if toolError(nil) != nil {
		t.Error("no error has become one")
	}
}

func TestWays(t *testing.T) {
	t.Parallel()
	h := &Host{}
	h.methods = h.allMethods()
	for name, c := range map[string]struct {
		v    Volume
		want []string
	}{
		"RBD":  {Volume{RBD: &anRBD}, []string{"krbd", "rbd-nbd", "rbd-fuse"}},
		"file": {Volume{File: "/v"}, []string{"qemu-nbd", "qcow2-fuse"}},
	} {
		var got []string
		for _, w := range h.methods {
			if w.takes(c.v) {
				got = append(got, w.name())
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	w := h.methodOf(&entry{Method: "later"})
	if _, _, err := w.device(t.Context(), nil); !errors.Is(err, seedbed.ErrVersion) || w.name() != "later" || w.takes(Volume{File: "/v"}) {
		t.Errorf("a way that is not known: %v", err)
	}
}

func FuzzFindMapped(f *testing.F) {
	f.Add([]byte(`[{"pool":"vms","name":"seedbed-volume.v","snap":"-","device":"/dev/rbd4"}]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if device, err := findMapped(answer, anRBD); err == nil && device != "" && !strings.HasPrefix(device, "/dev/") {
			t.Errorf("device %q", device)
		}
	})
}

func FuzzParseMounts(f *testing.F) {
	f.Add(`36 35 7:1 / /mnt/a\040b rw - ext4 /dev/loop1 rw`)
	f.Fuzz(func(_ *testing.T, text string) { parseMounts(text) })
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(`{"version":1,"token":"` + strings.Repeat("a", 26) + `","file":"/v"}`))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseEntry(strings.Repeat("a", 26), b) })
}
