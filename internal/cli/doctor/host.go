package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/mtls"
	"seedbed/netcfg"
)

// host is what the doctor checks without any daemon.
type host struct {
	system
	file    string // the daemons' configuration, and its content
	config  config.Config
	problem error
	libvirt string
	kvm     string
	dial    time.Duration
}

func newHost(file string) host {
	h := host{system: thisSystem(), file: file, libvirt: "/run/libvirt/libvirt-sock", kvm: "/dev/kvm", dial: 2 * time.Second}
	h.config, h.problem = config.Load(file)
	if h.problem != nil {
		h.config = config.Default()
	}
	if errors.Is(h.problem, fs.ErrPermission) {
		h.problem = nil // the daemons may read it; this user does not need to
	}
	return h
}

func (h host) checks(ctx context.Context) []seedbed.Check {
	all := []seedbed.Check{h.configuration(), h.room(), h.clock()}
	if h.controls() {
		all = append(all, h.socket(ctx, "control socket", h.config.API.Socket, h.start("seedbedd", h.file)),
			h.socket(ctx, "feed socket", h.config.Feed.Socket, h.start("seedbedd", h.file)))
	}
	all = append(all, h.certificates()...)
	if !h.config.Hypervisor {
		return all
	}
	all = append(all, h.socket(ctx, "worker", h.config.Worker.Socket, h.start("seedbed-worker", h.file)),
		h.socket(ctx, "libvirt", h.libvirt, h.startLibvirt()),
		h.tool("qemu-img", "apt install qemu-utils"),
		h.acceleration(),
		h.metadataPort())
	return append(all, h.guestPlane(ctx)...)
}

// settleFor is how long daemons that are starting have to open their sockets.
const settleFor = time.Second

// settle waits until the sockets of the daemons that should run here exist, for a moment.
func (h host) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	var sockets []string
	if h.controls() {
		sockets = append(sockets, h.config.API.Socket, h.config.Feed.Socket)
	}
	if h.config.Hypervisor {
		sockets = append(sockets, h.config.Worker.Socket)
	}
	tick := time.NewTicker(settleFor / 20)
	defer tick.Stop()
	for slices.ContainsFunc(sockets, func(path string) bool { _, err := os.Lstat(path); return errors.Is(err, fs.ErrNotExist) }) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (h host) configuration() seedbed.Check {
	c := seedbed.Check{Name: "configuration", OK: h.problem == nil, Detail: h.file}
	if h.problem != nil {
		c.Detail, c.Hint = h.problem.Error(), "correct "+h.file
	} else if _, err := os.Stat(h.file); errors.Is(err, fs.ErrNotExist) {
		c.Detail = "defaults: no file " + h.file
	}
	return c
}

// socket checks that a program answers on a Unix socket. For a socket that this user may not open,
// it checks only that the socket exists.
func (h host) socket(ctx context.Context, name, path, hint string) seedbed.Check {
	c := seedbed.Check{Name: name, OK: true, Detail: path + " answers"}
	d := net.Dialer{Timeout: h.dial}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
	case errors.Is(err, fs.ErrPermission):
		c.Detail = path + " exists, but this user cannot open it"
	case errors.Is(err, fs.ErrNotExist):
		c.OK, c.Detail, c.Hint = false, "missing: "+path, hint
	case errors.Is(err, unix.ECONNREFUSED):
		c.OK, c.Detail, c.Hint = false, "no answer on "+path, hint
	default:
		c.OK, c.Detail, c.Hint = false, err.Error(), hint
	}
	return c
}

func (h host) tool(name, hint string) seedbed.Check {
	path, err := exec.LookPath(name)
	if err != nil {
		return seedbed.Check{Name: name, Detail: "not found in PATH", Hint: hint}
	}
	return seedbed.Check{Name: name, OK: true, Detail: path}
}

func (h host) acceleration() seedbed.Check {
	c := seedbed.Check{Name: "kvm device", OK: true, Detail: h.kvm + " exists"}
	if _, err := os.Stat(h.kvm); err != nil {
		c.Detail = "missing: " + h.kvm + ": guests are emulated, which is slow"
		c.Hint = "enable virtualization in the firmware, or load kvm_intel or kvm_amd"
	}
	return c
}

// clock asks the kernel whether the clock is synchronized (adjtimex(2)). Webhooks are refused when
// the clocks of sender and receiver differ.
func (h host) clock() seedbed.Check {
	c := seedbed.Check{Name: "clock", OK: true, Detail: time.Now().UTC().Format(time.RFC3339)}
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		c.Detail += ", synchronisation unknown: " + err.Error()
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		c.OK = false
		c.Detail += ", not synchronised: webhooks whose time stamps seem too old or too new are refused"
		c.Hint = "run an NTP client, such as systemd-timesyncd or chrony"
	default:
		c.Detail += ", synchronised"
	}
	return c
}

// metadataPort reports which program listens on the port of the metadata service.
func (h host) metadataPort() seedbed.Check {
	addr := h.config.Metadata.Addr()
	c := seedbed.Check{Name: fmt.Sprintf("port %d", addr.Port()), OK: true}
	holder, err := portHolder(addr)
	switch {
	case err != nil:
		c.OK, c.Detail = false, err.Error()
	case holder == "":
		c.Detail = fmt.Sprintf("%s is free", addr)
	case strings.HasPrefix(holder, "seedbed-metadat"): // comm has 15 characters (proc(5))
		c.Detail = holder + " uses it"
	case strings.HasPrefix(holder, "a process of uid"):
		c.Detail, c.Hint = holder+" uses it", "run the doctor as root to see whether that is seedbed-metadata"
	default:
		c.OK, c.Detail = false, holder+" uses it, so guests cannot be served there"
		c.Hint = "make it listen on its own addresses, or set metadata.listen: redirect in " + h.file
	}
	return c
}

func portHolder(addr netip.AddrPort) (string, error) {
	m, err := netcfg.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer m.Close()
	return m.PortHolder(addr)
}

// certificates reports until when this host's certificates are valid for the other hosts.
func (h host) certificates() (all []seedbed.Check) {
	c := h.config.Cluster
	for _, p := range []struct {
		name string
		config.KeyPair
	}{{"cluster.control", c.Control}, {"cluster.worker", c.Worker}, {"cluster.metadata", c.Metadata}} {
		if p.Given() {
			all = append(all, mtls.CheckFiles(p.name, c.CA, p.Cert))
		}
	}
	return all
}

// controls reports whether seedbedd should run on this host. A node whose guest plane follows other
// hosts runs seedbedd if its socket exists.
func (h host) controls() bool {
	if len(h.config.Feed.Servers) == 0 {
		return true
	}
	_, err := os.Lstat(h.config.API.Socket)
	return !errors.Is(err, fs.ErrNotExist)
}

// elsewhere returns the check for a host on which seedbedd does not run.
func (h host) elsewhere() seedbed.Check {
	return seedbed.Check{Name: "api", OK: true, Detail: "seedbedd runs on other hosts: " + strings.Join(h.config.Feed.Servers, ", "),
		Hint: "run the doctor there too, or with --url"}
}

// leastRoom is the free space that the daemons' state needs.
const leastRoom = seedbed.GiB

// room checks that the daemons' state can grow. A full disk stops every job.
func (h host) room() seedbed.Check {
	dir := h.config.DataDir
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir) // it is created at the first start
	}
	c := seedbed.Check{Name: "room", OK: true}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		c.OK, c.Detail, c.Hint = false, fmt.Sprintf("%s: %v", dir, err), "check that its disk is mounted and readable"
		return c
	}
	free := seedbed.Bytes(fs.Bavail) * seedbed.Bytes(fs.Bsize)
	c.Detail = fmt.Sprintf("%s free for %s", free/seedbed.MiB*seedbed.MiB, h.config.DataDir)
	if free < leastRoom || fs.Files > 0 && fs.Ffree == 0 {
		c.OK, c.Hint = false, "free space on that disk, or move data_dir to a larger one: a full disk stops all jobs"
	}
	return c
}
