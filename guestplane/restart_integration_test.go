//go:build integration

package guestplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/feed"
	"seedbed/internal/feedtest"
	"seedbed/netcfg"
	"seedbed/netcfg/netnstest"
)

// crowd is a store with very many guests on one network.
type crowd struct {
	page seedbed.FeedPage
	doc  []byte
	hint chan struct{}
}

func newCrowd(t *testing.T, n int) *crowd {
	c := &crowd{doc: make([]byte, 16<<10), hint: make(chan struct{})}
	sum := sha256.Sum256(c.doc)
	blob := &seedbed.Blob{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(c.doc))}
	network := network0()
	network.Prefix, network.Gateway = netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("10.77.0.1")
	c.page = seedbed.FeedPage{Snapshot: true, Revision: 7, Generation: "g", Networks: []seedbed.Network{network}, TokenKey: make([]byte, 32)}
	addr := netip.MustParseAddr("10.77.0.10")
	for i := range n {
		addr = addr.Next()
		id := seedbed.InstanceID(fmt.Sprintf("ec2a0b1c-2d3e-4f56-8789-%012x", i))
		c.page.Changes = append(c.page.Changes, seedbed.FeedChange{Revision: 7, Instance: id, Record: feedtest.Record(t, seedbed.Guest{
			ID: id, Name: fmt.Sprintf("web-%d", i), Profile: "web", Image: "debian", VCPUs: 2, Memory: 2 << 30, UserData: blob,
			SSHKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPxx op"}, Created: time.Unix(1_700_000_000, 0), Node: "node1",
			NICs: []seedbed.GuestNIC{{ID: seedbed.NICID(i + 1), MAC: seedbed.MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)},
				Network: "default", Addr: addr}},
		})})
	}
	return c
}

func (c *crowd) FeedPage(_ context.Context, _ string, since int64, generation string) (seedbed.FeedPage, error) {
	if since == c.page.Revision && generation == c.page.Generation {
		p := c.page
		p.Snapshot, p.Changes = false, nil
		return p, nil
	}
	return c.page, nil
}
func (c *crowd) Peers(context.Context, string, int64, string) (seedbed.PeerPage, error) {
	return seedbed.PeerPage{}, nil
}
func (c *crowd) NodeBlob(context.Context, string, string) ([]byte, error) { return c.doc, nil }
func (c *crowd) NodeGuests(_ context.Context, _ string, ids []seedbed.InstanceID) ([]seedbed.InstanceID, error) {
	return ids, nil
}
func (c *crowd) Hint() <-chan struct{}                                      { return c.hint }
func (c *crowd) FeedHint() <-chan struct{}                                  { return nil }
func (c *crowd) SetApplied(context.Context, string, int64, time.Time) error { return nil }
func (c *crowd) AddGuestEvents(context.Context, string, string, []seedbed.GuestEvent) error {
	return nil
}

// TestRestart: with 100,000 instances, and nobody there but the disk, a guest is answered soon
// after the start, and one whose record changed meanwhile at once. How soon, make bench-metadata measures.
func TestRestart(t *testing.T) {
	c := newCrowd(t, 100_000)
	g := feedtest.Changes(t, c.page)[47].Guest
	dir, socket := t.TempDir(), filepath.Join(t.TempDir(), "feed.sock")
	t.Cleanup(func() { cleanUp(t) })
	run := func(until func(p *Plane, k *netcfg.Manager, client *feed.Client)) {
		t.Helper()
		k, err := netcfg.Open(quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		p := testPlane(k)
		p.guests = newGuests(p.directory, k)
		client := feed.NewClient(feed.ClientConfig{Socket: socket, Node: "node1", Dir: dir, Applier: p, Log: quiet})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 2)
		go func() { done <- p.Run(ctx) }()
		go func() { done <- client.Run(ctx) }()
		until(p, k, client)
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}

	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- feed.NewServer(c, quiet).ServeNode(server, ln, "node1", c) }()
	start := time.Now()
	run(func(_ *Plane, _ *netcfg.Manager, client *feed.Client) {
		eventually(t, func() string {
			if s := client.Status(); s.Acked != 7 {
				return fmt.Sprintf("status %+v", s)
			}
			return ""
		})
	})
	t.Logf("first start, with everything to fetch and to write: %v", time.Since(start).Round(time.Millisecond))
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	c.page.Changes = nil // as in a process that holds no more than the guest plane

	guest := attach(t, *g, "seedbed0", g.NICs[0].ID.Tap())
	for i := range 3 {
		if i == 2 {
			netnstest.Run(t, "nft", "flush ruleset") // what nobody counts on, and the guest is filtered all the same
		}
		start := time.Now()
		run(func(p *Plane, k *netcfg.Manager, _ *feed.Client) {
			for {
				if got := request(t, guest.ns, 200*time.Millisecond, "GET", ask4, idPath); got.status == 200 {
					took := time.Since(start)
					t.Logf("restart %d: answered after %v; %s", i, took.Round(time.Millisecond), resident(t))
					if got.body != g.ServedID() {
						t.Errorf("restart %d: %+v", i, got)
					}
					break
				}
				if time.Since(start) > 3*time.Minute {
					t.Fatalf("restart %d: no answer", i)
				}
			}
			// What is answered is filtered: the mark alone makes it known.
			if n := k.Stats().Ports; n != 100_000 {
				t.Errorf("restart %d: %d ports are filtered", i, n)
			}
			if got := request(t, guest.ns, patience, "GET", ask4, "/latest/user-data"); got.status != 200 || len(got.body) != len(c.doc) {
				t.Errorf("restart %d: user-data gives %d, %d bytes", i, got.status, len(got.body))
			}
		})
	}
}

// cleanUp takes away what any plane made.
func cleanUp(t *testing.T) {
	k, err := netcfg.Open(quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Cleanup(context.Background(), true); err != nil {
		t.Error(err)
	}
}

// resident is the memory that this process has.
func resident(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}
