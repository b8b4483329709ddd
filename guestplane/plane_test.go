package guestplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/metadata"
	"seedbed/netcfg"
	"seedbed/netcfg/dns"
)

// fakeKernel fails as it is told, and is otherwise content.
type fakeKernel struct {
	mu    sync.Mutex
	fail  int
	left  *netcfg.LeftOut // what it leaves out; nil is nothing
	tries []string        // what was asked of it
	ports map[string]uint32
	told  []seedbed.Check
	tell  chan linkEvent
	hold  chan struct{} // what changes the kernel waits for it; nil does not
}

func (k *fakeKernel) do(what string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries = append(k.tries, what)
	if k.hold != nil {
		<-k.hold
	}
	if k.fail > 0 {
		k.fail--
		return errors.New("no memory")
	}
	return nil
}

// outcome is the error of what succeeded.
func (k *fakeKernel) outcome() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == nil {
		return nil
	}
	return k.left
}

// leaveOut makes the kernel leave out a network from now on; an empty name is none.
func (k *fakeKernel) leaveOut(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = nil
	if name != "" {
		k.left = &netcfg.LeftOut{Networks: map[string]error{name: seedbed.Errorf(seedbed.ErrConflict, "its bridge is somebody else's")}}
	}
}

func (k *fakeKernel) Apply(_ context.Context, s netcfg.State, _ netcfg.Options) error {
	if err := k.do("apply"); err != nil {
		return err
	}
	k.ports = map[string]uint32{}
	for p := range s.Ports {
		k.ports[p.Tap] = p.Mark
	}
	return k.outcome()
}

func (k *fakeKernel) Change(_ context.Context, d netcfg.Diff) error {
	if err := k.do(fmt.Sprintf("change -%d +%d", len(d.Gone), len(d.Ports))); err != nil {
		return err
	}
	for _, tap := range d.Gone {
		delete(k.ports, tap)
	}
	for _, p := range d.Ports {
		k.ports[p.Tap] = p.Mark
	}
	return k.outcome()
}

func (k *fakeKernel) Restore(context.Context) error {
	if err := k.do("restore"); err != nil {
		return err
	}
	return k.outcome()
}

func (k *fakeKernel) Verify(context.Context) error { return k.do("verify") }
func (k *fakeKernel) HasIPv6(string) bool          { return false }

func (k *fakeKernel) Check(context.Context) []seedbed.Check {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.told)
}

func (k *fakeKernel) Floating() ([]seedbed.AddressProbe, error) { return nil, nil }

func (k *fakeKernel) Follow(ctx context.Context, _, _ []string, fn func(string, bool)) error {
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

func guest0() seedbed.Guest {
	return seedbed.Guest{ID: someone, Name: "web-1", NICs: []seedbed.GuestNIC{{
		ID: 101, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}, Network: "default", Addr: netip.MustParseAddr("10.77.0.11")}}}
}

// stateOf has one guest.
func stateOf(networks ...seedbed.Network) seedbed.GuestPlaneState {
	return stateWith(networks, guest0())
}

func stateWith(networks []seedbed.Network, guests ...seedbed.Guest) seedbed.GuestPlaneState {
	byID := map[seedbed.InstanceID]seedbed.Guest{}
	for _, g := range guests {
		byID[g.ID] = g
	}
	return seedbed.GuestPlaneState{
		Networks: networks, Revision: 1, InSync: true, Since: -1, TokenKey: bytes.Repeat([]byte("k"), 32),
		Guests: maps.All(byID),
		Guest:  func(id seedbed.InstanceID) (seedbed.Guest, bool) { g, ok := byID[id]; return g, ok },
		Blob:   func(string) ([]byte, bool) { return nil, false },
	}
}

func testPlane(k interface {
	Kernel
	Host
}) *Plane {
	directory := metadata.NewDirectory()
	return New(Config{Kernel: k, Host: k, Directory: directory, Guests: metadata.New(metadata.Config{Directory: directory, Log: quiet}),
		Port: config.Metadata{Listen: config.MetadataAddr}.Port(), Node: "hv1",
		Forwarder: dns.NewForwarder(nil, dns.ResolvConf), Log: quiet})
}

// start runs the plane until stop or the end of the test; stop gives what run returned.
func start(t *testing.T, p *Plane) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
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
			if err := p.Alive(ctx); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
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

		if err := p.directory.Apply(stateWith(nil)); err != nil {
			t.Fatal(err)
		}
		ask("not in the directory")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestChangesAreWritten: the kernel is told of what changed alone, and of everything where the two
// may differ.
func TestChangesAreWritten(t *testing.T) {
	t.Parallel()
	k := &fakeKernel{}
	p := testPlane(k)
	networks := []seedbed.Network{network0()}
	other := guest0()
	other.ID, other.NICs = "ec2a0b1c-2d3e-4f56-8789-0123456789ac", []seedbed.GuestNIC{
		{ID: 202, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 2}, Network: "default", Addr: netip.MustParseAddr("10.77.0.12")}}
	moved := other
	moved.NICs = []seedbed.GuestNIC{{ID: 203, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 3}, Network: "default",
		Addr: netip.MustParseAddr("10.77.0.13")}}
	twice := moved
	twice.NICs = append(slices.Clone(moved.NICs), moved.NICs[0])
	open := network0()
	open.Allow.Addresses = true
	state := func(since, revision int64, changed []seedbed.InstanceID, networks []seedbed.Network,
		guests ...seedbed.Guest) seedbed.GuestPlaneState {
		s := stateWith(networks, guests...)
		s.Since, s.Revision, s.Changed = since, revision, changed
		return s
	}
	one := []seedbed.InstanceID{other.ID}
	for _, step := range []struct {
		name  string
		state seedbed.GuestPlaneState
		fail  int
		did   string
		ports string
		err   bool
	}{
		{"first", state(-1, 1, nil, networks, guest0()), 0, "apply", "sb101", false},
		{"one comes", state(1, 2, one, networks, guest0(), other), 0, "change -0 +1", "sb101 sb202", false},
		{"one changes", state(2, 3, one, networks, guest0(), moved), 0, "change -1 +1", "sb101 sb203", false},
		{"the kernel refuses", state(3, 4, one, networks, guest0()), 1, "change -1 +0", "sb101 sb203", true},
		{"everything after that", state(3, 4, one, networks, guest0()), 0, "apply", "sb101", false},
		{"another base", state(3, 5, one, networks, guest0(), other), 0, "apply", "sb101 sb202", false},
		{"a network changes", state(5, 6, nil, []seedbed.Network{open}, guest0(), other), 0, "apply", "sb101 sb202", false},
		{"the directory refuses", state(6, 7, one, []seedbed.Network{open}, guest0(), twice), 0, "change -1 +2", "sb101 sb203", true},
		{"everything after that, too", state(6, 8, one, []seedbed.Network{open}, guest0()), 0, "apply", "sb101", false},
	} {
		k.set(step.fail, nil)
		err := p.Apply(t.Context(), step.state)
		if did := k.tries[len(k.tries)-1]; did != step.did || (err != nil) != step.err {
			t.Errorf("%s: %s (%v), want %s", step.name, did, err, step.did)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(k.ports)), " "); got != step.ports {
			t.Errorf("%s: ports %s, want %s", step.name, got, step.ports)
		}
	}
}

// TestUpkeep: the host is looked at again and again, and each problem is told of once.
func TestUpkeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := &fakeKernel{}
		p := testPlane(k)
		p.log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Upkeep(ctx) }()
		look := func(checks ...seedbed.Check) int {
			synctest.Wait() // the log is not written to while it is read
			before := strings.Count(log.String(), "check failed")
			k.mu.Lock()
			k.told = checks
			k.mu.Unlock()
			time.Sleep(2 * checkEvery)
			synctest.Wait()
			return strings.Count(log.String(), "check failed") - before
		}
		strict := seedbed.Check{Name: "bridge seedbed0", Detail: "rp_filter is strict", Hint: "sysctl -w x=2"}
		fine := seedbed.Check{Name: "bridge seedbed0", OK: true}
		down := strict
		down.Detail = "it is down"
		for i, step := range []struct {
			check seedbed.Check
			want  int
		}{{strict, 1}, {strict, 0}, {down, 1}, {fine, 0}, {strict, 1}} {
			if got := look(step.check); got != step.want {
				t.Errorf("step %d: told %d times, want %d\n%s", i, got, step.want, log.String())
			}
		}
		if !strings.Contains(log.String(), "fix=\"sysctl -w x=2\"") {
			t.Errorf("no fix is named:\n%s", log.String())
		}
		time.Sleep(verifyEvery)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var verified, restored int
		for _, what := range k.tries {
			switch what {
			case "verify":
				verified++
			case "restore":
				restored++
			}
		}
		if verified != 2 || restored < 25 {
			t.Errorf("verified %d times, want 2; restored %d times", verified, restored)
		}
	})
}

func TestInstallation(t *testing.T) {
	t.Parallel()
	a, b := installation([]byte("a key")), installation([]byte("another key"))
	if a == b || len(a) != 8 || installation(nil) != "" {
		t.Errorf("marks %q and %q, and %q for no key", a, b, installation(nil))
	}
}
