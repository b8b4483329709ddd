package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Libvirt makes sure that libvirtd answers on qemu:///system for the length of
// the test: the host's own when it runs, else one that is stopped with the test, and with all others
// that have come to use it, also of other packages.
func Libvirt(t T) {
	t.Helper()
	users, starts := lockFile(t, "users"), lockFile(t, "starts")
	t.Cleanup(func() { users.Close() })
	defer starts.Close()
	flock(t, starts, syscall.LOCK_EX)
	flock(t, users, syscall.LOCK_SH)
	if virsh("version") == nil {
		return
	}
	openKVM(t)
	dir := Dir(t)
	if err := LibvirtSockets(); err != nil {
		t.Fatalf("%v", err)
	}
	// Not daemonised, so that the process we started is the one we stop.
	if conn, err := net.Dial("unix", "/run/libvirt/virtlogd-sock"); err == nil {
		conn.Close()
	} else {
		Start(t, filepath.Join(dir, "virtlogd.log"), "virtlogd")
	}
	d := Start(t, filepath.Join(dir, "libvirtd.log"), "libvirtd")
	t.Cleanup(func() { flock(t, users, syscall.LOCK_EX) }) // before it is stopped
	Await(t, Patience, "libvirtd answers on qemu:///system", func() bool {
		if !d.Alive() {
			t.Fatalf("libvirtd ended: %s", d.Tail())
		}
		return virsh("version") == nil
	})
	dropLeft(t)
	if tb, ok := t.(testing.TB); ok {
		tb.Cleanup(func() {
			if tb.Failed() {
				tb.Logf("=== libvirtd\n%s", d.Tail())
			}
		})
	}
}

// LibvirtSockets makes the directory of the sockets of libvirt's daemons as their units make it. They themselves would keep swtpm out,
// which runs as a user of its own.
func LibvirtSockets() error {
	const dir = "/run/libvirt"
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return fmt.Errorf("make the directory of libvirt's sockets: %w", err)
	}
	return nil
}

// lockFile opens a file that tests of several packages lock because of the host's libvirtd.
func lockFile(t T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile("/run/seedbed-lab-libvirt."+name, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// flock waits for a lock, which ends with its file.
func flock(t T, f *os.File, how int) {
	t.Helper()
	err := error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), how)
	}
	if err != nil {
		t.Fatal(err)
	}
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
	_, err := virshOutput(args...)
	return err
}

func virshOutput(args ...string) (string, error) {
	return try(time.Minute, "virsh", append([]string{"-q", "-c", "qemu:///system"}, args...)...)
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

// dropDomains removes what a test left in libvirt: every domain with something below dir. What it cannot
// remove is an error of the test.
func dropDomains(t testing.TB, dir string) {
	if out, err := dropWith(func(xml string) bool { return strings.Contains(xml, dir) }); err != nil {
		t.Errorf("the domains of the test are not removed from libvirt: %v\n%s", err, out)
	}
}

// labDir matches the directory of a test in the definition of a domain.
var labDir = regexp.MustCompile(regexp.QuoteMeta(filepath.Join(dirRoot, dirPrefix)) + `\d+`)

// dropLeft removes the domains of tests that have ended: their directories are gone.
func dropLeft(t T) {
	out, err := dropWith(func(xml string) bool {
		dir := labDir.FindString(xml)
		if dir == "" {
			return false
		}
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
	if err != nil {
		t.Fatalf("domains of earlier tests are not removed from libvirt: %v\n%s", err, out)
	}
}

// dropWith removes the domains whose definitions match. If libvirt does not answer, it is an error only if
// one of them is on disk.
func dropWith(match func(xml string) bool) (out string, err error) {
	list, err := virshOutput("list", "--all", "--name")
	if err != nil {
		files, _ := filepath.Glob("/etc/libvirt/qemu/*.xml")
		for _, file := range files {
			if xml, errRead := os.ReadFile(file); errRead == nil && match(string(xml)) {
				return list, err
			}
		}
		return "", nil
	}
	for _, name := range strings.Fields(list) {
		xml, err := virshOutput("dumpxml", name)
		if err != nil || !match(xml) {
			continue // one without a definition is gone
		}
		virsh("destroy", name) // it need not run
		out, err := virshOutput("undefine", name, "--nvram")
		if err != nil && virsh("dominfo", name) == nil { // it is still there
			return out, err
		}
	}
	return "", nil
}
