package main

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
	"seedbed/feed"
	"seedbed/internal/config"
	"seedbed/metadata"
	"seedbed/netcfg"
)

// fakeKernel fails as it is told, and is otherwise content.
type fakeKernel struct {
	mu    sync.Mutex
	fail  int
	tries []netcfg.State
	tell  chan linkEvent
	hold  chan struct{} // Apply waits for it; nil does not
}

func (k *fakeKernel) Apply(_ context.Context, s netcfg.State, _ netcfg.Options) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries = append(k.tries, s)
	if k.hold != nil {
		<-k.hold
	}
	if k.fail > 0 {
		k.fail--
		return errors.New("no memory")
	}
	return nil
}

func (k *fakeKernel) Follow(ctx context.Context, _ []string, fn func(string, bool)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-k.tell:
			fn(e.bridge, e.up)
		}
	}
}

func (k *fakeKernel) PortHolder(netip.AddrPort) (string, error) { return "", nil }

func (k *fakeKernel) set(fail int, hold chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail, k.hold = fail, hold
}

func (k *fakeKernel) tried() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.tries)
}

const someone = seedbed.InstanceID("ec2a0b1c-2d3e-4f56-8789-0123456789ab")

func network0() seedbed.Network {
	return seedbed.Network{
		Name: "default", Bridge: "seedbed0", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 1},
		Prefix: netip.MustParsePrefix("10.77.0.0/24"), Gateway: netip.MustParseAddr("10.77.0.1"), NAT: true, DHCP: true,
	}
}

func stateOf(networks ...seedbed.Network) feed.State {
	return feed.State{Networks: networks, Revision: 1, InSync: true, Guests: map[seedbed.InstanceID]seedbed.Guest{
		someone: {ID: someone, Name: "web-1", NICs: []seedbed.GuestNIC{{
			ID: 101, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}, Network: "default", Addr: netip.MustParseAddr("10.77.0.11")}}},
	}}
}

func testPlane(k kernel) *plane {
	directory := metadata.NewDirectory()
	return newPlane(k, directory, metadata.New(metadata.Config{Directory: directory, Log: quiet}), nil, config.Metadata{Listen: config.MetadataAddr}, quiet)
}

// start runs the plane until stop or the end of the test; stop gives what run returned.
func start(t *testing.T, p *plane) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return stop
}

// TestLostBridgeIsMade: a bridge that cannot be made again at once is tried until it can.
func TestLostBridgeIsMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKernel{tell: make(chan linkEvent)}
		p := testPlane(k)
		stop := start(t, p)
		if err := p.Apply(t.Context(), stateOf(network0())); err != nil {
			t.Fatal(err)
		}
		k.set(20, nil)
		k.tell <- linkEvent{"seedbed0", false}
		synctest.Wait()
		if n := k.tried(); n != 2 {
			t.Errorf("tried %d times at once", n-1)
		}
		time.Sleep(time.Minute)
		if n := k.tried(); n != 1+20+1 {
			t.Errorf("tried %d times, want until it succeeded, 21", n-1)
		}
		k.set(1, nil) // once more, and the first retry is soon
		k.tell <- linkEvent{"seedbed0", false}
		time.Sleep(2 * firstBackoff)
		if n := k.tried(); n != 22+2 {
			t.Errorf("tried %d times, want 2", n-22)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKernel{tell: make(chan linkEvent)}
		p := testPlane(k)
		ask := func(want string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := p.alive(ctx); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("alive gives %v, want %q", err, want)
			}
		}
		ask("does not answer") // it does not run
		stop := start(t, p)
		ask("")
		if err := p.Apply(t.Context(), stateOf(network0())); err != nil {
			t.Fatal(err)
		}
		ask("")

		hold := make(chan struct{})
		k.set(0, hold)
		k.tell <- linkEvent{"seedbed0", false}
		synctest.Wait()
		ask("does not answer") // it hangs in the kernel
		close(hold)
		ask("")

		if err := p.directory.Apply(metadata.State{}); err != nil {
			t.Fatal(err)
		}
		ask("not in the directory")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
