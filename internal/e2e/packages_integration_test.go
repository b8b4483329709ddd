//go:build integration && libvirt

package e2e

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

var packageUnits = []string{"seedbedd.service", "seedbed-worker.service", "seedbed-metadata.service"}

// buildPackages builds the packages into a directory of the test's own; an
// empty version is that of debian/changelog. They are compressed in a moment,
// where xz would take half a minute.
func buildPackages(t *testing.T, version string) (dir string) {
	t.Helper()
	dir = filepath.Join(lab.Dir(t), "dist")
	cmd := exec.Command(filepath.Join(lab.Root(), "packaging/build-debs.sh"), dir, version)
	cmd.Env = append(os.Environ(), "DPKG_DEB_COMPRESSOR_TYPE=gzip", "DPKG_DEB_COMPRESSOR_LEVEL=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("build-debs.sh: %v\n%s", err, out)
	}
	return dir
}

// installation is a Debian with the packages in it.
type installation struct {
	*lab.DebianRoot
	t *testing.T
}

// copyIn puts the packages of a build into the root, and gives their paths there.
func (in *installation) copyIn(dist string) []string {
	in.t.Helper()
	debs, err := filepath.Glob(filepath.Join(dist, "*.deb"))
	if err != nil || len(debs) != 4 {
		in.t.Fatalf("packages in %s: %v (%v), expected four", dist, debs, err)
	}
	var inside []string
	for _, deb := range debs {
		data, err := os.ReadFile(deb)
		if err != nil {
			in.t.Fatal(err)
		}
		inside = append(inside, "/root/"+filepath.Base(deb))
		if err := os.WriteFile(in.Path(inside[len(inside)-1]), data, 0o644); err != nil {
			in.t.Fatal(err)
		}
	}
	return inside
}

// awaitUnits waits until systemd has all units running, and seedbedd answers.
func (in *installation) awaitUnits() {
	in.t.Helper()
	lab.Await(in.t, lab.Patience, "the units run", func() bool {
		_, err := in.Try(time.Minute, append([]string{"systemctl", "is-active"}, packageUnits...)...)
		return err == nil
	})
	lab.Await(in.t, lab.Patience, "seedbedd answers", func() bool {
		_, err := in.Try(time.Minute, "seedbed", "image", "list")
		return err == nil
	})
}

// mainPIDs are the units' processes as their own system counts them.
func (in *installation) mainPIDs() []string {
	in.t.Helper()
	return strings.Fields(in.Run(append([]string{"systemctl", "show", "-P", "MainPID"}, packageUnits...)...))
}

func (in *installation) instance(name string) seedbed.Instance {
	in.t.Helper()
	var vm seedbed.Instance
	if out := in.Run("seedbed", "vm", "show", name, "-f", "json"); json.Unmarshal([]byte(out), &vm) != nil || len(vm.NICs) != 1 {
		in.t.Fatalf("vm show: %s", out)
	}
	return vm
}

// owned checks who owns a path and with which mode.
func (in *installation) owned(path, want string) {
	in.t.Helper()
	if got := strings.TrimSpace(in.Run("stat", "-c", "%U:%G %a", path)); got != want {
		in.t.Errorf("%s is %s, expected %s", path, got, want)
	}
}

func (in *installation) exists(path string) bool {
	in.t.Helper()
	return in.Run("sh", "-c", `if test -e "$0"; then echo yes; fi`, "/"+path) == "yes\n"
}

// pinger pings an address ten times a second until its count is asked for.
type pinger struct {
	*lab.Process
}

func startPing(t *testing.T, netns, addr string) pinger {
	t.Helper()
	return pinger{lab.Start(t, filepath.Join(lab.Dir(t), "ping"), "ip", "netns", "exec", netns, "ping", "-n", "-i", "0.1", "-W", "1", addr)}
}

var pinged = regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`)

// lost ends the ping, and is how many had no answer, of how many.
func (p pinger) lost(t *testing.T) (lost, sent int) {
	t.Helper()
	p.Stop(syscall.SIGINT)
	m := pinged.FindStringSubmatch(p.Tail())
	if m == nil {
		t.Fatalf("ping: %s", p.Tail())
	}
	sent, _ = strconv.Atoi(m[1])
	got, _ := strconv.Atoi(m[2])
	return sent - got, sent
}

// TestPackages builds the packages, installs them into a fresh Debian with
// systemd running, makes an instance there, upgrades, removes and purges, while
// a namespace that stands for its guest goes on pinging its gateway.
func TestPackages(t *testing.T) {
	beside(t)
	host := lab.Netns(t)
	older, newer := buildPackages(t, ""), buildPackages(t, lab.Releases(t)[0].Version+"+upgrade1")
	lintian(t, older)
	in := &installation{lab.BootDebian(t, host, "systemd", "qemu-utils", "libvirt0", "librbd1"), t}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := in.Try(10*time.Second, "journalctl", "-q", "--no-pager", "-n", "200", "-u", "seedbed*")
			t.Log(out)
		}
	})
	in.install(older)
	vm := in.create("vm1")
	nic := vm.NICs[0]

	guest := lab.Netns(t)
	lab.IP(t, "-n", host, "link", "add", nic.ID.Tap(), "type", "veth", "peer", "name", "eth0", "netns", guest)
	lab.IP(t, "-n", host, "link", "set", nic.ID.Tap(), "master", "seedbed0", "up")
	take(t, guest, nic.MAC, nic.Addr.String())
	served := func(when string) {
		t.Helper()
		lab.Await(t, lab.Patience, when+" the guest is served its own", func() bool {
			body, _ := curlFor(t, guest, 10*time.Second, metadataURL+"meta-data/instance-id")
			return body == vm.ID.EC2()
		})
	}
	served("at first")
	gateway := netip.PrefixFrom(nic.Addr, 24).Masked().Addr().Next().String()
	lab.Await(t, lab.Patience, "the gateway answers", func() bool {
		_, err := lab.In(t, guest, time.Minute, "ping", "-c", "1", "-W", "1", gateway)
		return err == nil
	})
	ping := startPing(t, guest, gateway)
	bridge := ifindex(t, host, "seedbed0")

	in.upgrade(newer)
	served("after the upgrade")
	if got := in.instance("vm1"); got.ID != vm.ID || !reflect.DeepEqual(got.NICs[0], nic) {
		t.Errorf("after the upgrade the instance is %+v, was %+v", got, vm)
	}
	in.remove()
	out := in.purge()
	for _, said := range []string{nic.ID.Tap(), "--cleanup", "disks of guests"} {
		if !strings.Contains(out, said) {
			t.Errorf("a purge with a guest attached does not speak of %q:\n%s", said, out)
		}
	}
	if lost, sent := ping.lost(t); lost > 2 || sent < 10 {
		t.Errorf("%d of %d pings were lost between install and purge", lost, sent)
	} else {
		t.Logf("%d of %d pings were lost between install and purge", lost, sent)
	}

	// A daemon makes a bridge that went away again, quicker than a ping sees.
	if now := ifindex(t, host, "seedbed0"); now != bridge {
		t.Errorf("the bridge is not what it was: interface %s at first, %s after the purge", bridge, now)
	}

	lab.IP(t, "-n", host, "link", "del", nic.ID.Tap())
	in.purgeFree(older, host)
}

func ifindex(t *testing.T, netns, name string) string {
	t.Helper()
	out, err := lab.In(t, netns, time.Minute, "cat", "/sys/class/net/"+name+"/ifindex")
	if err != nil {
		t.Fatalf("%s: %v %s", name, err, out)
	}
	return strings.TrimSpace(out)
}

// install installs the packages, and checks what they put there and that the
// units run, with libvirt's test driver.
func (in *installation) install(dist string) {
	in.t.Helper()
	in.Run(append([]string{"apt-get", "install", "-y", "--no-install-recommends"}, in.copyIn(dist)...)...)
	in.Run(append([]string{"systemd-analyze", "verify", "--man=no"}, packageUnits...)...)
	for path, want := range map[string]string{
		"/run/seedbed":              "seedbed:seedbed 751",
		"/var/lib/seedbed":          "seedbed:seedbed 751",
		"/var/lib/seedbed/metadata": "seedbed-metadata:seedbed-metadata 700",
		"/var/lib/seedbed-pools":    "root:root 711",
		"/var/lib/seedbed-cdrom":    "root:root 711",
		"/var/log/seedbed-console":  "root:root 711",
		"/etc/seedbed/seedbed.yaml": "root:root 644",
	} {
		in.owned(path, want)
	}
	for _, file := range []string{
		"usr/bin/seedbed", "usr/share/bash-completion/completions/seedbed",
		"usr/share/zsh/vendor-completions/_seedbed", "usr/share/fish/vendor_completions.d/seedbed.fish",
		"etc/seedbed/hooks.d/README", "usr/share/seedbed/examples/hooks/hosts-file", "usr/share/seedbed/examples/README.md",
		"usr/share/seedbed/examples/scripts/debootstrap.py", "usr/share/seedbed/examples/userdata/cloud-config.yaml",
	} {
		if !in.exists(file) {
			in.t.Errorf("the packages hold no /%s", file)
		}
	}
	in.hardened("usr/bin/seedbed", "usr/sbin/seedbedd", "usr/sbin/seedbed-worker", "usr/sbin/seedbed-metadata")
	// An operator's change of a conffile, which the upgrade has to keep.
	in.Run("sed", "-i", "s|#uri: qemu:///system|uri: test:///default|", "/etc/seedbed/seedbed.yaml")
	in.Run("systemctl", "restart", "seedbed-worker.service")
	in.awaitUnits()
	in.owned("/run/seedbed/control.sock", "seedbed:seedbed 660")
	in.owned("/run/seedbed/feed.sock", "seedbed:seedbed-metadata 660")
	in.owned("/run/seedbed/worker.sock", "seedbed:root 600")
	// An operator of the group calls seedbedd, and not the worker, which would do anything.
	in.Run("sh", "-c", "id alice >/dev/null 2>&1 || useradd --groups seedbed alice")
	in.Run("runuser", "-u", "alice", "--", "test", "-w", "/run/seedbed/control.sock")
	if _, err := in.Try(time.Minute, "runuser", "-u", "alice", "--", "test", "-w", "/run/seedbed/worker.sock"); err == nil {
		in.t.Error("a member of the group seedbed may use worker.sock")
	}
	for _, socket := range []string{"control", "worker"} { // what faces guests drives nothing
		if _, err := in.Try(time.Minute, "runuser", "-u", "seedbed-metadata", "--", "test", "-w", "/run/seedbed/"+socket+".sock"); err == nil {
			in.t.Errorf("the guest plane's user may use %s.sock", socket)
		}
	}
	// The guest plane sets them, as a user who may for its capability alone.
	for key, want := range map[string]string{"net.ipv4.ip_forward": "1", "net.ipv4.tcp_fwmark_accept": "1",
		"net.ipv6.conf.seedbed0.accept_ra": "0"} {
		if out := in.Run("cat", "/proc/sys/"+strings.ReplaceAll(key, ".", "/")); out != want+"\n" {
			in.t.Errorf("%s is %s, expected %s", key, out, want)
		}
	}
	// A database that comes up late is no reason to give up.
	if out := in.Run(append([]string{"systemctl", "show", "-P", "StartLimitIntervalUSec"}, packageUnits...)...); strings.Trim(out,
		"0\n") != "" {
		in.t.Errorf("units give up after a while: %q", out)
	}
	if out := in.Run("systemctl", "show", "-P", "WatchdogTimestampMonotonic", "seedbedd.service"); out == "0\n" {
		in.t.Error("seedbedd does not feed its watchdog")
	}
}

// create makes an instance of a blank image through the CLI.
func (in *installation) create(name string) seedbed.Instance {
	in.t.Helper()
	blank := lab.BlankImage(in.t, in.Path("root"))
	in.Run("seedbed", "image", "add", "blank", "/root/"+filepath.Base(blank))
	in.Run("seedbed", "profile", "add", "small", "--image", "blank", "--memory", "64MiB", "--disk", "0", "--ready", "started")
	in.Run("seedbed", "create", name, "--profile", "small", "--wait")
	return in.instance(name)
}

// upgrade installs packages of a higher version, and checks that the daemons
// are the new ones and that no configuration is lost.
func (in *installation) upgrade(dist string) {
	in.t.Helper()
	before := in.mainPIDs()
	in.Run(append([]string{"dpkg", "-i"}, in.copyIn(dist)...)...)
	if out := in.Run("seedbedd", "-version"); !strings.Contains(out, "+upgrade1") {
		in.t.Errorf("after the upgrade: %s", out)
	}
	in.awaitUnits()
	for i, pid := range in.mainPIDs() {
		if pid == before[i] || pid == "0" {
			in.t.Errorf("%s was not restarted: process %s before, %s after", packageUnits[i], before[i], pid)
		}
	}
	in.Run("grep", "-q", "test:///default", "/etc/seedbed/seedbed.yaml")
	if out := in.Run(append([]string{"systemctl", "show", "-P", "NRestarts"}, packageUnits...)...); strings.Trim(out, "0\n") != "" {
		in.t.Errorf("units were restarted because they failed: %q", out)
	}
}

var ourPackages = []string{"seedbed", "seedbed-worker", "seedbed-metadata", "seedbed-cli"}

// remove removes the packages, and checks that the data stay.
func (in *installation) remove() {
	in.t.Helper()
	in.Run(append([]string{"dpkg", "--remove"}, ourPackages...)...)
	for _, kept := range []string{"var/lib/seedbed/seedbed.db", "var/lib/seedbed/metadata", "var/lib/seedbed-pools/default/volumes",
		"etc/seedbed/seedbed.yaml"} {
		if !in.exists(kept) {
			in.t.Errorf("a removal took /%s", kept)
		}
	}
	if in.exists("usr/sbin/seedbedd") {
		in.t.Error("a removal left /usr/sbin/seedbedd")
	}
}

// purge purges the packages, checks that the data are gone, and gives what it said.
func (in *installation) purge() string {
	in.t.Helper()
	out := in.Run(append([]string{"dpkg", "--purge"}, ourPackages...)...)
	for _, gone := range []string{"var/lib/seedbed", "var/lib/seedbed-cdrom", "var/log/seedbed-console", "etc/seedbed", "run/seedbed"} {
		if in.exists(gone) {
			in.t.Errorf("a purge left /%s:\n%s", gone, in.Run("find", "/"+gone))
		}
	}
	return out
}

// purgeFree installs, removes and purges with no guest attached and no disk of
// one left: nothing stays, bridge and filters neither.
func (in *installation) purgeFree(dist, host string) {
	in.t.Helper()
	if err := os.RemoveAll(in.Path("var/lib/seedbed-pools/default/volumes")); err != nil {
		in.t.Fatal(err)
	}
	in.purgeTrash()
	in.Run(append([]string{"dpkg", "-i"}, in.copyIn(dist)...)...)
	in.awaitUnits()
	if in.exists("var/lib/seedbed-purge") {
		in.t.Error("an installation left the copy that waits for a purge")
	}
	in.Run(append([]string{"dpkg", "--remove"}, ourPackages...)...)
	lab.IP(in.t, "-n", host, "link", "show", "seedbed0") // a removal leaves it
	in.purge()
	if out, err := lab.In(in.t, host, time.Minute, "ip", "link", "show", "seedbed0"); err == nil {
		in.t.Errorf("a purge left the bridge: %s", out)
	}
	if out, err := lab.In(in.t, host, time.Minute, "nft", "list", "tables"); err != nil || strings.Contains(out, "seedbed") {
		in.t.Errorf("a purge left tables: %s (%v)", out, err)
	}
	if left := in.Run("sh", "-c", "ls -d /var/lib/seedbed* /var/log/seedbed* /etc/seedbed /run/seedbed 2>/dev/null; true"); left != "" {
		in.t.Errorf("a purge left:\n%s", left)
	}
}

// purgeTrash checks that a purge leaves the disk of a guest that is in the trash.
func (in *installation) purgeTrash() {
	in.t.Helper()
	script, err := os.ReadFile(filepath.Join(lab.Root(), "debian", "seedbed-worker.postrm"))
	if err != nil {
		in.t.Fatal(err)
	}
	const disk = "var/lib/seedbed-pools/default/.trash/t1.qcow2"
	for path, data := range map[string][]byte{disk: nil, "root/postrm": script} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(in.Path(path)), 0o700), os.WriteFile(in.Path(path), data, 0o600)); err != nil {
			in.t.Fatal(err)
		}
	}
	in.Run("sh", "/root/postrm", "purge")
	if !in.exists(disk) {
		in.t.Error("a purge took the disk of a guest out of the trash")
	}
	if err := os.RemoveAll(filepath.Dir(in.Path(disk))); err != nil {
		in.t.Fatal(err)
	}
}

// lintian checks the packages; an error of its is one of the test's.
func lintian(t *testing.T, dist string) {
	t.Helper()
	debs, _ := filepath.Glob(filepath.Join(dist, "*.deb"))
	out, err := exec.Command("lintian", append([]string{"--no-cfg", "--allow-root", "--fail-on", "error"}, debs...)...).CombinedOutput()
	if err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}
