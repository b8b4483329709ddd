package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Machine is another machine, with a kernel of its own, under emulation: Debian's
// cloud kernel, which has what this machine's may lack (rbd, nbd). Its root is in its
// memory and holds programs and files of this machine under their paths here. What
// listens on 127.0.0.1 here is reached there by that address.
type Machine struct {
	t   testing.TB
	dir string
}

// NewMachine makes a machine that has those programs and the libraries that they need.
func NewMachine(t testing.TB, programs ...string) *Machine {
	t.Helper()
	m := &Machine{t: t, dir: Dir(t)}
	packages := DebianPackages(t)
	script := filepath.Join(Root(), "internal/lab/machine.sh")
	if out, err := exec.Command(script, append([]string{m.dir, packages.Tarball}, programs...)...).CombinedOutput(); err != nil {
		t.Fatalf("machine.sh: %v\n%s", err, out)
	}
	m.copy(filepath.Join(Root(), "internal/lab/machine-init.sh"), "/init", 0o755)
	return m
}

// Give gives the machine files of this one, each under its path here.
func (m *Machine) Give(paths ...string) {
	m.t.Helper()
	for _, path := range paths {
		m.copy(path, path, 0o600)
	}
}

func (m *Machine) copy(from, to string, mode os.FileMode) {
	m.t.Helper()
	to = filepath.Join(m.dir, "root", to)
	err := os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		var text []byte
		if text, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, text, mode)
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// Run boots the machine, has its shell run a command, and gives what was written to its
// console until the command ended: ok reports whether with status 0. The machine ends then.
func (m *Machine) Run(timeout time.Duration, command string) (console string, ok bool) {
	m.t.Helper()
	root, initrd := filepath.Join(m.dir, "root"), filepath.Join(m.dir, "initrd")
	if err := os.WriteFile(filepath.Join(root, "command"), []byte(command+"\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", `cd "$0" && find . | busybox cpio -o -H newc >"$1"`, root, initrd).CombinedOutput(); err != nil {
		m.t.Fatalf("cpio: %v\n%s", err, out)
	}
	p := Start(m.t, filepath.Join(m.dir, "console"), "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1536", "-serial", "stdio",
		"-kernel", filepath.Join(m.dir, "vmlinuz"), "-initrd", initrd, "-append",
		"console=ttyS0 quiet no_timer_check panic=-1 net.ifnames=0 rdinit=/init",
		"-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,romfile=")
	const end = "machine: command ended with status "
	Await(m.t, timeout, "the machine has run its command", func() bool {
		console = p.Output()
		return strings.Contains(console, end) || !p.Alive()
	})
	p.Stop(syscall.SIGTERM)
	_, status, there := strings.Cut(p.Output(), end)
	if !there {
		m.t.Fatalf("the machine ended before its command did: %s", p.Tail())
	}
	return console, strings.HasPrefix(status, "0")
}
