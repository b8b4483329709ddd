//go:build integration && libvirt

package libvirt_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed/internal/lab"
	"seedbed/internal/lab/leak"
)

const libvirtSocket = "/run/libvirt/libvirt-sock"

// daemons are libvirtd and virtlogd as far as this test run started them.
type daemons struct {
	mu      sync.Mutex
	running []*exec.Cmd
	dir     string
}

var ours daemons

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("/var/tmp", "seedbed-libvirt-")
		if err != nil {
			return refuse(err)
		}
		ours.dir = dir
		defer os.RemoveAll(dir)
		// QEMU runs as another user, who has to come through here.
		if err := os.Chmod(dir, 0o755); err != nil {
			return refuse(err)
		}
		restore, err := openKVM()
		if err != nil {
			return refuse(err)
		}
		defer restore()
		defer ours.stop()
		if err := ours.start(); err != nil {
			return refuse(err)
		}
		code := m.Run()
		if err := leak.Find(); err != nil && code == 0 {
			return refuse(err)
		}
		return code
	}())
}

// openKVM does what udev would (see the driver's check "kvm device"): without
// it libvirt probes QEMU for seconds at every call.
func openKVM() (restore func(), err error) {
	const device = "/dev/kvm"
	info, err := os.Stat(device)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Mode().Perm()&0o066 != 0 {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	group, err := user.LookupGroup("kvm")
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		return nil, err
	}
	old := int(info.Sys().(*syscall.Stat_t).Gid)
	return func() {
		os.Chmod(device, info.Mode().Perm())
		os.Chown(device, -1, old)
	}, errors.Join(os.Chown(device, -1, gid), os.Chmod(device, 0o660))
}

func refuse(err error) int {
	fmt.Fprintln(os.Stderr, "libvirt tests:", err)
	return 1
}

func answers(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, 5*time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// owned is true when libvirtd is ours to stop.
func (d *daemons) owned() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.running) > 0 && filepath.Base(d.running[len(d.running)-1].Path) == "libvirtd"
}

// start starts what does not answer.
func (d *daemons) start() error {
	if err := lab.LibvirtSockets(); err != nil {
		return err
	}
	for _, one := range []struct{ program, socket string }{
		{"virtlogd", "/run/libvirt/virtlogd-sock"},
		{"libvirtd", libvirtSocket},
	} {
		if answers(one.socket) {
			continue
		}
		if err := d.launch(one.program, one.socket); err != nil {
			return err
		}
	}
	return nil
}

func (d *daemons) launch(program, socket string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program
	}
	log, err := os.OpenFile(filepath.Join(d.dir, program+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path)
	cmd.Stdout, cmd.Stderr = log, log
	// Its own group, so that an interrupt of the tests leaves it to us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.mu.Lock()
	d.running = append(d.running, cmd)
	d.mu.Unlock()
	for end := time.Now().Add(2 * time.Minute); !answers(socket); {
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s does not listen at %s: %s", program, socket, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// stop ends what start started, the newest first.
func (d *daemons) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.running) - 1; i >= 0; i-- {
		d.running[i].Process.Signal(syscall.SIGTERM)
		d.running[i].Wait()
	}
	d.running = nil
}

// restart ends libvirtd, which must be ours, runs meanwhile, and starts it anew.
func (d *daemons) restart(meanwhile func()) error {
	d.mu.Lock()
	last := len(d.running) - 1
	cmd := d.running[last]
	d.running = d.running[:last]
	d.mu.Unlock()
	var status *exec.ExitError
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil && !errors.As(err, &status) {
		return err
	}
	meanwhile()
	return d.launch("libvirtd", libvirtSocket)
}

// connect is a connection of the test's own, beside the driver's.
func connect(t *testing.T, uri string) *lv.Connect {
	t.Helper()
	conn, err := lv.NewConnect(uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
