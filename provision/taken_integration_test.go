//go:build integration && libvirt

package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	lv "libvirt.org/go/libvirt"

	"seedbed"
	engines "seedbed/internal/lab"
	"seedbed/internal/run"
	"seedbed/internal/testdb"
	"seedbed/provision/fleet"
	"seedbed/provision/intake"
	"seedbed/provision/libvirt"
	"seedbed/provision/worker"
)

// inNamespace is a hypervisor whose host has the networks of a namespace.
type inNamespace struct {
	*libvirt.Driver
	netns string
}

// TakenMACs implements worker.Network.
func (h inNamespace) TakenMACs(ctx context.Context) (taken []seedbed.TakenMAC, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var fd int
		if fd, err = unix.Open(filepath.Join("/run/netns", h.netns), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err == nil {
			taken, err = h.Driver.TakenMACs(ctx)
		}
	}()
	<-done
	return taken, err
}

// onLibvirt returns a lab whose engine uses a real worker over its socket, with libvirt's test
// driver and the networks of a namespace. The connection keeps the domains, which all connections
// of the process share.
func onLibvirt(t *testing.T, netns string) (*lab, *lv.Connect) {
	t.Helper()
	l := newBareLab(t, testdb.Open(t))
	log := slog.New(slog.DiscardHandler)
	driver, err := libvirt.Open(t.Context(),
		libvirt.Config{URI: "test:///default", ConsoleDir: filepath.Join(t.TempDir(), "console"), CDROMDir: t.TempDir(), Log: log})
	l.ok(err)
	conn, err := lv.NewConnect("test:///default")
	l.ok(err)
	socket := filepath.Join(t.TempDir(), "w.sock")
	ln, err := run.Socket{Path: socket, Mode: 0o660}.Listen(t.Context())
	l.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	server := worker.New(worker.Config{
		Node: testNode, Pools: map[string]worker.Pool{"default": l.pool}, Hypervisor: inNamespace{driver, netns}, Log: log,
	})
	go func() { done <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		_, closed := conn.Close()
		if err := errors.Join(<-done, closed, driver.Close()); err != nil {
			t.Error(err)
		}
	})
	l.worker = fleet.NewClient(socket)
	return l.withProvisioner(), conn
}

// following returns the MAC that is drawn after mac.
func following(mac seedbed.MAC) seedbed.MAC {
	n := (uint32(mac[3])<<16 | uint32(mac[4])<<8 | uint32(mac[5])) + 1
	return seedbed.MAC{mac[0], mac[1], mac[2], byte(n >> 16), byte(n >> 8), byte(n)}
}

// TestStrangersMAC has others use MAC addresses on the node: a domain that belongs to no instance,
// and a neighbour. No instance gets one of them, from its template or at random, until it is no
// longer used.
func TestStrangersMAC(t *testing.T) {
	netns := engines.Netns(t)
	l, conn := onLibvirt(t, netns)
	ctx := t.Context()
	engines.IP(t, "-n", netns, "link", "add", "sbn0", "type", "bridge")
	engines.IP(t, "-n", netns, "link", "set", "sbn0", "up")
	neighbour := func(do, addr string, mac seedbed.MAC, state string) {
		t.Helper()
		engines.IP(t, "-n", netns, "neigh", do, addr, "lladdr", mac.String(), "dev", "sbn0", "nud", state)
	}
	p := l.start()
	asked := map[seedbed.MAC]bool{}
	l.serve(func(s *intake.Serving) {
		s.MACTaken = func(node string, mac seedbed.MAC) string {
			asked[mac] = true
			return p.engine.MACTaken(node, mac)
		}
	})
	draw := func(name string) seedbed.MAC {
		t.Helper()
		l.wait(l.create(name), seedbed.JobSucceeded)
		return l.byName(name).NICs[0].MAC
	}
	last := draw("drawn")                       // the next MAC is the one after it
	lost := seedbed.MAC{0x52, 0x54, 0, 9, 9, 9} // the MAC of a neighbour that has not answered for long
	neighbour("add", "192.0.2.77", lost, "stale")

	var domain *lv.Domain
	for i, test := range []struct {
		name, by   string
		take, free func(mac, other seedbed.MAC)
	}{
		{"domain", "domain stranger",
			func(mac, other seedbed.MAC) {
				var err error
				domain, err =
					conn.DomainDefineXML(fmt.Sprintf(`<domain type='test'><name>stranger</name><memory>65536</memory><os><type>hvm</type></os><devices>
					<interface type='user'><mac address='%s'/></interface><interface type='user'><mac address='%s'/></interface></devices></domain>`,
						mac, other))
				l.ok(err)
			},
			func(seedbed.MAC, seedbed.MAC) { l.ok(errors.Join(domain.Undefine(), domain.Free())) }},
		{"neighbour", "neighbour 192.0.2.9",
			func(mac, other seedbed.MAC) {
				neighbour("add", "192.0.2.9", mac, "permanent")
				neighbour("add", "2001:db8::9", other, "permanent")
			},
			func(mac, other seedbed.MAC) {
				neighbour("del", "192.0.2.9", mac, "permanent")
				neighbour("del", "2001:db8::9", other, "permanent")
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			number := 3 + i
			wanted, other := seedbed.MAC{0x52, 0x54, 1, 0, byte(number << 4), 0}, following(last)
			user := func(mac seedbed.MAC) string { return p.engine.MACTaken(testNode, mac) }
			test.take(wanted, other)
			l.eventually("the inventory has who uses them", func() bool { return user(wanted) != "" && user(other) != "" })
			if by := user(lost); by != "" {
				t.Errorf("one that has not answered for long is taken for %s", by)
			}

			name := fmt.Sprint("web", number)
			says := fmt.Sprintf("MAC address %s is used on node %s already, by %s", wanted, testNode, test.by)
			_, err := l.asPVC(ctx, seedbed.Request{Name: name, Profile: "web"})
			if !errors.Is(err, seedbed.ErrExists) || !strings.Contains(err.Error(), says) {
				t.Errorf("asked for: %v; want %q", err, says)
			}
			if _, err := l.db.InstanceByName(ctx, seedbed.InDefault(name)); !errors.Is(err, seedbed.ErrNotFound) {
				t.Errorf("the instance: %v; want none", err)
			}
			plan, err := l.intake.Plan(ctx, seedbed.Request{Action: seedbed.DoPlan, Name: name, Profile: "web"})
			if err != nil || !slices.ContainsFunc(plan.Problems, func(p string) bool { return strings.Contains(p, says) }) {
				t.Errorf("planned: %q, %v; want %q", plan.Problems, err, says)
			}

			last = draw(fmt.Sprint("drawn", number))
			if !asked[other] || last == other {
				t.Errorf("drawn: %s, which %s has", last, user(other))
			}

			test.free(wanted, other)
			l.eventually("nobody uses it", func() bool { return user(wanted) == "" })
			l.wait(l.compose(name, true), seedbed.JobSucceeded)
			inst := l.byName(name)
			if inst.NICs[0].MAC != wanted {
				t.Errorf("got %s; want %s", inst.NICs[0].MAC, wanted)
			}
		})
	}
}
