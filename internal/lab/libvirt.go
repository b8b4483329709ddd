package lab

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Libvirt makes sure that libvirtd answers on qemu:///system for the length of
// the test: the host's own when it runs, else one that is stopped with the test.
func Libvirt(t T) {
	t.Helper()
	if virsh("version") == nil {
		return
	}
	openKVM(t)
	dir := Dir(t)
	// Not daemonised, so that the process we started is the one we stop.
	if conn, err := net.Dial("unix", "/run/libvirt/virtlogd-sock"); err == nil {
		conn.Close()
	} else {
		Start(t, filepath.Join(dir, "virtlogd.log"), "virtlogd")
	}
	d := Start(t, filepath.Join(dir, "libvirtd.log"), "libvirtd")
	Await(t, Patience, "libvirtd answers on qemu:///system", func() bool {
		if !d.Alive() {
			t.Fatalf("libvirtd ended: %s", d.Tail())
		}
		return virsh("version") == nil
	})
}

// kvm is /dev/kvm, which is open while there are tests that want it so.
var kvm struct {
	sync.Mutex
	users int
	close func() // nil when it was open before
}

// openKVM gives /dev/kvm to its group for the length of the test where udev has
// not: while only root can open it, libvirt probes QEMU again at every call.
func openKVM(t T) {
	kvm.Lock()
	defer kvm.Unlock()
	kvm.users++
	t.Cleanup(func() {
		kvm.Lock()
		defer kvm.Unlock()
		if kvm.users--; kvm.users == 0 && kvm.close != nil {
			kvm.close()
			kvm.close = nil
		}
	})
	const path = "/dev/kvm"
	st, err := os.Stat(path)
	group, groupErr := user.LookupGroup("kvm")
	if err != nil || groupErr != nil || st.Mode().Perm()&0o060 != 0 {
		return
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(path, -1, gid), os.Chmod(path, 0o660)); err != nil {
		t.Fatal(err)
	}
	kvm.close = func() { os.Chown(path, -1, 0); os.Chmod(path, st.Mode().Perm()) }
}

func virsh(args ...string) error {
	_, err := try(time.Minute, "virsh", append([]string{"-q", "-c", "qemu:///system"}, args...)...)
	return err
}

// forgetSecret removes the secret that seedbed-worker made in libvirt for a pool.
func forgetSecret(pool string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "virsh", "-q", "-c", "qemu:///system", "secret-list").Output()
	if err != nil {
		return // without libvirt nobody made one
	}
	for line := range strings.Lines(string(out)) {
		if id, usage, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(usage, " pool "+pool+" ") {
			virsh("secret-undefine", id)
		}
	}
}

// dropDomains removes what a test left in libvirt: every domain with something
// below dir.
func dropDomains(t testing.TB, dir string) {
	if virsh("version") != nil {
		return
	}
	here := shell{t, namespace{t: t}}
	for _, name := range here.Domains() {
		if xml, err := here.Try("virsh", "-q", "-c", "qemu:///system", "dumpxml", name); err == nil && strings.Contains(xml, dir) {
			virsh("destroy", name)
			virsh("undefine", name, "--nvram")
		}
	}
}
