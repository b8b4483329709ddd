package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"seedbed/feed"
)

// host is a hypervisor: a namespace with the daemon, what feeds it, and guests.
type host struct {
	ns      space
	dir     string
	set     setup
	in      *installation
	daemon  *process
	sources []*source

	unfeed func() // ends the feed's server; nil without one
}

// newHost starts the daemon of a host and feeds it with an installation of so many guests, of which
// the first are attached to its bridge.
func newHost(ctx context.Context, ns space, dir string, set setup, guests, attached int) (*host, error) {
	h := &host{ns: ns, dir: dir, set: set, in: newInstallation(guests)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := ns.in(prepareHost); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`node: %[1]s
data_dir: %[2]s
run_dir: %[2]s/run
feed: {socket: %[2]s/feed.sock}
log: {level: warn}
`, nodeName, dir)
	if err := os.WriteFile(h.path("seedbed.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := h.feed(ctx); err != nil {
		return nil, err
	}
	if err := h.start(); err != nil {
		h.stop()
		return nil, err
	}
	err := h.daemon.await(ctx, 2*time.Minute, 20*time.Millisecond, func() bool { return h.in.served() == h.in.page.Revision })
	if err == nil {
		h.sources, err = attach(ns, bridgeName, h.in.guests[:attached])
	}
	if err != nil {
		h.stop()
		return nil, fmt.Errorf("%d guests: %w", guests, err)
	}
	return h, nil
}

// prepareHost is run in the namespace.
func prepareHost() error {
	rt, err := rtnetlink.Dial(nil)
	if err != nil {
		return err
	}
	defer rt.Close()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	if err := rt.Link.Set(&rtnetlink.LinkMessage{Index: uint32(lo.Index), Flags: unix.IFF_UP, Change: unix.IFF_UP}); err != nil {
		return err
	}
	return prepareNetwork()
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

// feed serves the installation to the daemon, as seedbedd does.
func (h *host) feed(ctx context.Context) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", h.path("feed.sock"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	server := feed.NewServer(h.in, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	go func() { done <- server.ServeNode(ctx, ln, nodeName, h.in) }()
	h.unfeed = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	})
	return nil
}

func (h *host) start(args ...string) (err error) {
	cmd := exec.Command(h.set.daemon, append([]string{"-config", h.path("seedbed.yaml")}, args...)...)
	h.daemon, err = h.ns.start(h.path("daemon.log"), cmd)
	return err
}

func (h *host) stop() {
	if h.daemon != nil && h.daemon.alive() == nil {
		if err := h.daemon.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	h.unfeed()
}
