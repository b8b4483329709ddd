package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Host is another hypervisor on this machine: it has a network, processes and a libvirt of its own,
// and shares the file system but for what libvirt keeps there. A link leads to it, from the test's
// own network namespace or from another host's.
type Host struct {
	// Addr is the host's on the link, and Peer that of the other end.
	Addr, Peer netip.Addr
	// Dir is for files of the host; it is seen on both sides.
	Dir string

	shell
	init *Process // process 1, with which everything there ends
	link string   // the other end
	far  shell    // where that is
}

var hosts atomic.Int32

// NewHost makes a host on which nothing runs yet. It vanishes with the test, also when that is
// killed: its process 1 waits for the end of a pipe.
func NewHost(t testing.TB) *Host {
	t.Helper()
	h := newHost(t)
	h.connect(shell{t, namespace{t: t}})
	return h
}

// Neighbour makes another host, which has a link only to h.
func (h *Host) Neighbour() *Host {
	h.t.Helper()
	other := newHost(h.t)
	IP(h.t, "link", "set", other.link, "netns", strconv.Itoa(h.init.Cmd.Process.Pid))
	other.connect(h.shell)
	return other
}

func newHost(t testing.TB) *Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes namespaces: run it as root")
	}
	n := byte(hosts.Add(1))
	h := &Host{
		Addr: netip.AddrFrom4([4]byte{198, 18, n, 2}), Peer: netip.AddrFrom4([4]byte{198, 18, n, 1}),
		Dir: Dir(t), link: fmt.Sprintf("sbh%d-%d", os.Getpid(), n),
	}
	h.shell = shell{t, h}
	cmd := exec.Command(filepath.Join(Root(), "internal/lab/host.sh"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.init = launch(t, filepath.Join(h.Dir, "init.log"), cmd, cmd.Start)
	t.Cleanup(func() { hold.Close() })
	Await(t, Patience, "the host is ready", func() bool {
		if !h.init.Alive() {
			t.Fatalf("the host ended: %s", h.init.Tail())
		}
		return strings.Contains(h.init.Tail(), "ready\n")
	})
	IP(t, "link", "add", h.link, "type", "veth", "peer", "name", "uplink", "netns", strconv.Itoa(h.init.Cmd.Process.Pid))
	return h
}

// connect puts the cable in at the other end.
func (h *Host) connect(far shell) {
	h.t.Helper()
	h.far = far
	// It would go with the host's network, but not at once.
	h.t.Cleanup(func() { far.Try("ip", "link", "del", h.link) })
	far.Run("ip", "addr", "add", h.Peer.String()+"/24", "dev", h.link)
	h.Run("ip", "addr", "add", h.Addr.String()+"/24", "dev", "uplink")
	h.Run("ip", "link", "set", "uplink", "up")
	h.Link(true)
}

// Cable connects two hosts by one more cable, and names its end on each.
func (h *Host) Cable(far *Host, name string) {
	h.t.Helper()
	pid := func(h *Host) string { return strconv.Itoa(h.init.Cmd.Process.Pid) }
	IP(h.t, "link", "add", name, "netns", pid(h), "type", "veth", "peer", "name", name, "netns", pid(far))
	for _, end := range []*Host{h, far} {
		end.Run("ip", "link", "set", name, "up")
	}
}

// Link puts the cable in or out.
func (h *Host) Link(in bool) {
	h.t.Helper()
	h.far.Run("ip", "link", "set", h.link, map[bool]string{true: "up", false: "down"}[in])
}

// Libvirt starts the host's libvirtd, and virtlogd if it does not run there yet, and waits until it
// answers. args are for libvirtd.
func (h *Host) Libvirt(args ...string) *Process {
	h.t.Helper()
	openKVM(h.t)
	h.Run("mkdir", "-p", "/run/lock") // for the locks of consoles
	if _, err := os.Stat(h.Path("/run/libvirt/virtlogd-sock")); err != nil {
		h.start(filepath.Join(h.Dir, "virtlogd.log"), "virtlogd")
	}
	d := h.start(filepath.Join(h.Dir, "libvirtd.log"), "libvirtd", args...)
	Await(h.t, Patience, "the host's libvirtd answers", func() bool {
		if !d.Alive() {
			h.t.Fatalf("the host's libvirtd ended: %s", d.Tail())
		}
		_, err := h.try(time.Minute, "virsh", "-c", "qemu:///system", "version")
		return err == nil
	})
	return d
}

// Start runs a program there until the test is over, or until it ends.
func (h *Host) Start(logfile, name string, args ...string) *Process {
	h.t.Helper()
	return h.start(logfile, name, args...)
}

func (h *Host) start(logfile, name string, args ...string) *Process {
	h.t.Helper()
	cmd := exec.Command(name, args...)
	return launch(h.t, logfile, cmd, func() error { return h.enter(cmd.Start) })
}

func (h *Host) try(timeout time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 10 * time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := h.enter(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	return out.String(), err
}

// Path is where the test sees a path of the host.
func (h *Host) Path(inside string) string {
	return fmt.Sprintf("/proc/%d/root%s", h.init.Cmd.Process.Pid, inside)
}

// enter has begin start a process on the host: a child is in the namespaces of the thread that
// starts it.
func (h *Host) enter(begin func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			init, err := unix.PidfdOpen(h.init.Cmd.Process.Pid, 0)
			if err != nil {
				return fmt.Errorf("the host is gone: %w", err)
			}
			defer unix.Close(init)
			// Threads share the root directory; only one that does not may leave for other mounts.
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return err
			}
			if err := unix.Setns(init, unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_NEWPID); err != nil {
				return err
			}
			return begin()
		}()
	}()
	return <-done
}

// FarNetns is the path of the network namespace to which its link leads.
func (h *Host) FarNetns() string {
	if other, is := h.far.at.(*Host); is {
		return fmt.Sprintf("/proc/%d/ns/net", other.init.Cmd.Process.Pid)
	}
	return "/proc/self/ns/net"
}
