package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestMerge: what the host and its daemons find of the same thing is one line, and the worse counts.
func TestMerge(t *testing.T) {
	t.Parallel()
	fine := func(name, detail string) seedbed.Check { return seedbed.Check{Name: name, OK: true, Detail: detail} }
	hinted := func(name, detail string) seedbed.Check {
		return seedbed.Check{Name: name, OK: true, Detail: detail, Hint: "of " + detail}
	}
	bad := func(name, detail string) seedbed.Check {
		return seedbed.Check{Name: name, Detail: detail, Hint: "of " + detail}
	}
	own := []seedbed.Check{fine("libvirt", "own"), hinted("kvm device", "own"), bad("worker", "own"), fine("qemu-img", "own"),
		bad("clock", "own"), fine("room", "own")}
	for _, tt := range []struct {
		name    string
		daemons []seedbed.Check
		want    []string // verdict, name and detail of each
	}{
		{"only the host's", nil, []string{"ok libvirt own", "ok qemu-img own", "ok room own", "note kvm device own", "problem worker own",
			"problem clock own"}},
		{"the daemon knows more", []seedbed.Check{fine("libvirt", "theirs"), fine("qemu-img", "theirs")},
			[]string{"ok libvirt theirs", "ok qemu-img theirs", "ok room own", "note kvm device own", "problem worker own", "problem clock own"}},
		{"the worse counts", []seedbed.Check{bad("libvirt", "theirs"), fine("kvm device", "theirs"), fine("clock", "theirs")},
			[]string{"ok qemu-img own", "ok room own", "note kvm device own", "problem libvirt theirs", "problem worker own", "problem clock own"}},
		{"the hint for this host", []seedbed.Check{bad("worker", "theirs")},
			[]string{"ok libvirt own", "ok qemu-img own", "ok room own", "note kvm device own", "problem worker own", "problem clock own"}},
		{"this node among others", []seedbed.Check{bad("hv1: libvirt", "theirs"), fine("hv2: libvirt", "other"), fine("hv1: qemu-img", "theirs")},
			[]string{"ok hv1: qemu-img theirs", "ok room own", "ok hv2: libvirt other", "note kvm device own", "problem hv1: libvirt theirs",
				"problem worker own", "problem clock own"}},
		{"two of one name", []seedbed.Check{bad("endpoints", "a"), bad("endpoints", "b"), fine("qemu-img", "x"), fine("qemu-img", "x")},
			[]string{"ok libvirt own", "ok qemu-img x", "ok room own", "note kvm device own", "problem worker own", "problem clock own",
				"problem endpoints a; b"}},
		{"a worse one of one name", []seedbed.Check{fine("pool", "a"), bad("pool", "b"), fine("pool", "c")},
			[]string{"ok libvirt own", "ok qemu-img own", "ok room own", "note kvm device own", "problem worker own", "problem clock own",
				"problem pool b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			names := map[string]bool{}
			for _, r := range merge("hv1", own, tt.daemons) {
				got = append(got, r.Verdict+" "+r.Name+" "+r.Detail)
				if names[r.Name] {
					t.Errorf("%s is there twice", r.Name)
				}
				names[r.Name] = true
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if got := count(merge("hv1", own, nil)); got != "6 checks: 3 ok, 1 note, 2 problems" {
		t.Error(got)
	}
}

// TestHints: each kind of host has its own way to start programs. What a hint says to run is run.
func TestHints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path string) string {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		// A program that another test starts meanwhile would hold the file open for writing for a
		// moment, and the kernel would not run it.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho started \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("units/seedbed-worker.service")
	write("booted/x")
	write("source/seedbed-worker")
	nothing := func(string) (string, error) { return "", exec.ErrNotFound }
	libvirtd := func(name string) (string, error) {
		if name == "/usr/sbin/libvirtd" {
			return name, nil
		}
		return nothing(name)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, tt := range map[string]struct {
		system
		worker, libvirt string
	}{
		"packages": {system{at("booted"), []string{at("units")}, at("usr"), libvirtd},
			"systemctl start seedbed-worker, or", "systemctl start libvirtd virtlogd"},
		"source, systemd": {system{at("booted"), nil, at("source"), nothing},
			"start it: " + at("source/seedbed-worker"), "apt install libvirt-daemon-system qemu-system-x86"},
		"source, no systemd": {system{at("none"), []string{at("units")}, at("source"), libvirtd},
			"start it: " + at("source/seedbed-worker"), "virtlogd -d && libvirtd -d"},
		"nothing installed": {system{at("none"), nil, at("usr"), nothing},
			"install seedbed-worker, and start it", "apt install libvirt-daemon-system qemu-system-x86 && virtlogd -d && libvirtd -d"},
	} {
		if got := tt.start("seedbed-worker", "/etc/seedbed/seedbed.yaml"); !strings.HasPrefix(got, tt.worker) {
			t.Errorf("%s: %s", name, got)
		}
		if got := tt.startLibvirt(); got != tt.libvirt {
			t.Errorf("%s: %s", name, got)
		}
	}
	hint := system{at("none"), nil, at("source"), nothing}.start("seedbed-worker", "/tmp/my.yaml")
	run, _ := strings.CutPrefix(hint, "start it: ")
	if out, err := exec.Command("sh", "-c", run).CombinedOutput(); err != nil || string(out) != "started -config /tmp/my.yaml\n" {
		t.Errorf("%s: %v, %q", hint, err, out)
	}
}
