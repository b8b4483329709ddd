//go:build integration

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/feed"
	"seedbed/internal/feedtest"
	"seedbed/internal/lab"
)

// guestPlane is a host with the real seedbed-metadata, fed by the real feed
// server from a store that has its guests and nothing else.
type guestPlane struct {
	t     *testing.T
	netns string
	proc  *lab.Process

	page  seedbed.FeedPage
	blobs map[string][]byte

	mu      sync.Mutex
	applied int64
	events  []seedbed.GuestEvent
}

const planeNode, planeBridge = "lab", "sbplane0"

// newGuestPlane serves the guests on a network of their own; documents are
// theirs by name. Each must have one NIC.
func newGuestPlane(t *testing.T, documents map[string]seedbed.Documents, guests ...seedbed.Guest) *guestPlane {
	t.Helper()
	p := &guestPlane{t: t, netns: lab.Netns(t), blobs: map[string][]byte{}}
	p.page = seedbed.FeedPage{
		Snapshot: true, Revision: 1, Generation: "one", TokenKey: make([]byte, 32),
		Site: seedbed.Site{Domain: "seedbed.example", Partition: "seedbed"},
		Networks: []seedbed.Network{{
			Name: "default", Bridge: planeBridge, MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 1},
			Prefix: netip.MustParsePrefix("10.79.0.0/24"), Gateway: netip.MustParseAddr("10.79.0.1"), DHCP: true,
			DNS: []netip.Addr{netip.MustParseAddr("10.79.0.1")},
		}},
	}
	for _, g := range guests {
		g.UserData, g.VendorData = p.blob(documents[g.Name].UserData), p.blob(documents[g.Name].VendorData)
		p.page.Changes = append(p.page.Changes, seedbed.FeedChange{Revision: 1, Instance: g.ID, Record: feedtest.Record(t, g)})
	}
	dir := lab.Dir(t)
	p.serveFeed(filepath.Join(dir, "feed.sock"))
	config := filepath.Join(dir, "seedbed.yaml")
	yaml := fmt.Sprintf("node: %s\ndata_dir: %s\nrun_dir: %[2]s/run\nfeed: {socket: %[2]s/feed.sock}\n", planeNode, dir)
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	p.proc = lab.Start(t, filepath.Join(dir, "log"), "ip", "netns", "exec", p.netns,
		filepath.Join(lab.Programs(t), "seedbed-metadata"), "-config", config)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.proc.Tail())
		}
	})
	lab.Await(t, lab.Patience, "the guests are served", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.applied == p.page.Revision
	})
	return p
}

func (p *guestPlane) blob(data []byte) *seedbed.Blob {
	if data == nil {
		return nil
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	p.blobs[name] = data
	return &seedbed.Blob{SHA256: name, Size: int64(len(data))}
}

func (p *guestPlane) serveFeed(socket string) {
	p.t.Helper()
	ln, err := net.Listen("unix", socket)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- feed.NewServer(p, slog.New(slog.DiscardHandler)).ServeNode(ctx, ln, planeNode, p) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
	})
}

// attach gives a guest a namespace with its MAC and address on the plane's
// bridge, and waits until it is answered.
func (p *guestPlane) attach(g seedbed.Guest) (netns string) {
	p.t.Helper()
	nic := g.NICs[0]
	netns = lab.Netns(p.t)
	lab.IP(p.t, "-n", p.netns, "link", "add", nic.ID.Tap(), "type", "veth", "peer", "name", "eth0", "address", nic.MAC.String(),
		"netns", netns)
	lab.IP(p.t, "-n", p.netns, "link", "set", nic.ID.Tap(), "master", planeBridge, "up")
	lab.IP(p.t, "-n", netns, "link", "set", "eth0", "up")
	lab.IP(p.t, "-n", netns, "addr", "add", nic.Addr.String()+"/24", "dev", "eth0")
	lab.IP(p.t, "-n", netns, "route", "add", "169.254.169.254/32", "dev", "eth0")
	client := clientIn(netns)
	lab.Await(p.t, lab.Patience, g.Name+" is answered", func() bool {
		r, err := client.Get("http://169.254.169.254/")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK || r.StatusCode == http.StatusUnauthorized
	})
	return netns
}

// clientIn is an HTTP client whose connections begin in a namespace.
func clientIn(netns string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dialIn("/run/netns/" + netns), DisableKeepAlives: true},
		Timeout: 20 * time.Second}
}

// dialIn makes connections that begin in the network namespace of that path.
func dialIn(netns string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		type result struct {
			conn net.Conn
			err  error
		}
		done := make(chan result)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			fd, err := unix.Open(netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Setns(fd, unix.CLONE_NEWNET)
				unix.Close(fd)
			}
			if err != nil {
				done <- result{nil, err}
				return
			}
			c, err := (&net.Dialer{Timeout: 20 * time.Second}).DialContext(ctx, network, addr)
			done <- result{c, err}
		}()
		r := <-done
		return r.conn, r.err
	}
}

// seen are the access records of a guest so far, as "METHOD PATH STATUS".
func (p *guestPlane) seen(g seedbed.Guest) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Instance == g.ID && e.Kind == seedbed.GuestAccess {
			all = append(all, fmt.Sprintf("%s %s %d", e.Method, e.Path, e.Status))
		}
	}
	return all
}

// FeedPage implements feed.Source.
func (p *guestPlane) FeedPage(_ context.Context, _ string, since int64, generation string) (seedbed.FeedPage, error) {
	page := p.page
	if since == page.Revision && generation == page.Generation {
		page.Snapshot, page.Changes = false, nil
	}
	return page, nil
}

// Peers implements feed.Source: there is one node.
func (p *guestPlane) Peers(context.Context, string, int64, string) (seedbed.PeerPage, error) {
	return seedbed.PeerPage{}, nil
}

// NodeBlob implements feed.Guests.
func (p *guestPlane) NodeBlob(_ context.Context, _, sum string) ([]byte, error) {
	if b, ok := p.blobs[sum]; ok {
		return b, nil
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "no document %s", sum)
}

// NodeGuests implements feed.Guests: all are the node's.
func (p *guestPlane) NodeGuests(_ context.Context, _ string, ids []seedbed.InstanceID) ([]seedbed.InstanceID, error) {
	return ids, nil
}

// Hint implements feed.Source.
func (p *guestPlane) Hint() <-chan struct{} { return nil }

// FeedHint implements feed.Source.
func (p *guestPlane) FeedHint() <-chan struct{} { return nil }

// SetApplied implements feed.Sink.
func (p *guestPlane) SetApplied(_ context.Context, _ string, revision int64, _ time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied = revision
	return nil
}

// AddGuestEvents implements feed.Sink.
func (p *guestPlane) AddGuestEvents(_ context.Context, _, _ string, events []seedbed.GuestEvent) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, events...)
	return nil
}

// detectVirt is systemd-detect-virt in a virtual machine.
const detectVirt = `#!/bin/sh
case $* in *--container*) exit 1 ;; esac
echo kvm
`

// firmware writes what tells a program in which machine it is: below id the
// files of /sys/class/dmi/id that the kernel of a domain would have, and below
// bin systemd-detect-virt. It returns the folder above.
func firmware(t *testing.T, smbios map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"id", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/systemd-detect-virt"), []byte(detectVirt), 0o755); err != nil {
		t.Fatal(err)
	}
	for entry, file := range map[string]string{
		"manufacturer": "sys_vendor", "product": "product_name", "serial": "product_serial", "uuid": "product_uuid",
		"family": "product_family", "version": "product_version", "": "chassis_asset_tag",
	} {
		if err := os.WriteFile(filepath.Join(dir, "id", file), []byte(smbios[entry]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inGuest runs a command of the tests in a guest's namespace, with its firmware.
func inGuest(t *testing.T, netns, firmware string, command ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lab.Patience)
	defer cancel()
	script := filepath.Join(lab.Root(), "internal/e2e/testdata/withdmi.sh")
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", netns, script, firmware}, command...)...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if e, ok := err.(*exec.ExitError); ok {
			stderr = e.Stderr
		}
		t.Fatalf("%v: %v\n%s%s", command, err, out, stderr)
	}
	return out
}
