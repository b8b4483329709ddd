package fleet_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab/leak"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { leak.Main(bothWays{m}) }

// patience is how long anything may take here.
const patience = time.Minute

// lab is a worker on its own socket or port, with drivers in memory.
type lab struct {
	*fleet.Client
	pool   *drivertest.Pool
	domain *drivertest.Hypervisor
	// scripts is nil for a worker that runs none.
	scripts *drivertest.Scripts
	// hooks is nil for a worker that runs none.
	hooks worker.Hooks
	over  transport
	at    string // where it is
	// node is its host, and pools are its pools in addition to "default".
	node  string
	pools map[string]worker.Pool
	// stop ends the server and returns what Serve returned.
	stop func() error
}

func start(t *testing.T) *lab {
	t.Helper()
	return startOver(t, way)
}

// startOver is start over the given transport.
func startOver(t *testing.T, over transport) *lab {
	t.Helper()
	t.Log("over", over.name())
	return startNode(t, over, "n1", nil)
}

// startNode is startOver for a host of that name, with those additional pools.
func startNode(t *testing.T, over transport, node string, pools map[string]worker.Pool) *lab {
	t.Helper()
	l := &lab{pool: drivertest.NewPool(), domain: drivertest.NewHypervisor(), scripts: drivertest.NewScripts(), over: over,
		at: over.place(t), node: node, pools: pools}
	l.serve(t)
	l.Client = over.client(l.at)
	l.Client.Patient(patience)
	return l
}

// serve starts a server with the lab's drivers, as after a restart.
func (l *lab) serve(t *testing.T) {
	t.Helper()
	config := worker.Config{Node: l.node, Pools: map[string]worker.Pool{"default": l.pool}, Hypervisor: l.domain,
		Log:       slog.New(slog.DiscardHandler),
		Backups:   worker.Backups{Dirs: []string{os.TempDir()}},
		Keepalive: 20 * time.Millisecond, Grace: 100 * time.Millisecond}
	if l.scripts != nil {
		config.Scripts = l.scripts
	}
	config.Hooks = l.hooks
	maps.Copy(config.Pools, l.pools)
	s := worker.New(config)
	ln := l.over.listen(t, l.at)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	stopped := false
	l.stop = func() error {
		cancel()
		select {
		case err := <-done:
			stopped = true
			return err
		case <-time.After(patience):
			return errors.New("the server does not end")
		}
	}
	stop := l.stop
	t.Cleanup(func() {
		if !stopped {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

func call(epoch int64) seedbed.Call {
	return seedbed.Call{Job: "5f3c1a30-1111-4222-8333-444455556666", Epoch: epoch, Stage: "volumes"}
}

func volume() seedbed.VolumeSpec {
	id := seedbed.NewInstanceID()
	return seedbed.VolumeSpec{Pool: "default", Name: string(id) + "-0", Instance: id, Size: seedbed.GiB}
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestEveryMethod(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	disk, sum := drivertest.BootableFile(t)
	var last seedbed.Progress
	image, err := effects.ImportImage.Do(ctx, l, call(1), seedbed.ImageSpec{Pool: "default", Name: "base", Path: disk, SHA256: sum},
		effects.OnProgress(func(p seedbed.Progress) { last = p }))
	must(t, "import", err)
	if image.Job != call(1).Job || image.Size != drivertest.BootableSize || last.Percent() != 100 {
		t.Errorf("image %+v, progress %+v", image, last)
	}
	spec := volume()
	spec.Image = "base"
	v, err := effects.CloneVolume.Do(ctx, l, call(1), spec)
	must(t, "clone", err)
	if v.Job != call(1).Job || v.Instance != spec.Instance || v.Size != seedbed.GiB {
		t.Errorf("volume %+v", v)
	}
	domain := seedbed.DomainSpec{ID: spec.Instance, Name: "web", VCPUs: 2, Memory: seedbed.GiB, Disks: []seedbed.Disk{v.Disk},
		NICs: []seedbed.DomainNIC{{Tap: "sb1", MAC: seedbed.NewMAC(), Bridge: "seedbed0"}}, Job: call(1).Job}
	must(t, "define", effects.DefineDomain.Do(ctx, l, call(1), domain))
	got, _ := l.domain.Spec(spec.Instance)
	if d := cmp.Diff(domain, got); d != "" {
		t.Error(d)
	}
	must(t, "start", effects.StartDomain.Do(ctx, l, call(1), effects.DomainRef{ID: domain.ID}))
	l.domain.Write(domain.ID, "login: ")
	text, err := effects.Console.Ask(ctx, l, effects.ConsoleTail{ID: domain.ID, Tail: 4})
	if err != nil || string(text) != "in: " {
		t.Errorf("console %q, %v", text, err)
	}
	state, err := effects.DomainState.Ask(ctx, l, effects.DomainRef{ID: domain.ID})
	want := seedbed.DomainInfo{ID: domain.ID, Name: "web", Job: call(1).Job, State: seedbed.DomainRunning}
	if err != nil || state != want {
		t.Errorf("state %+v, %v", state, err)
	}
	inv, err := effects.Inventory.Ask(ctx, l, effects.None{})
	must(t, "inventory", err)
	if d := cmp.Diff(seedbed.Inventory{Node: "n1", Complete: true, Domains: []seedbed.DomainInfo{want},
		Volumes: []seedbed.VolumeInfo{v}, Images: []seedbed.ImageInfo{image}}, inv); d != "" {
		t.Error(d)
	}
	checks, err := effects.Health.Ask(ctx, l, effects.None{})
	if err != nil || len(checks) != 2 || !checks[0].OK || !checks[1].OK {
		t.Errorf("health %+v, %v", checks, err)
	}
	must(t, "shut down", effects.ShutdownDomain.Do(ctx, l, call(1), effects.DomainRef{ID: domain.ID}))
	if off, err := effects.DomainState.Ask(ctx, l, effects.DomainRef{ID: domain.ID}); err != nil || off.State != seedbed.DomainOff {
		t.Errorf("state once its guest has shut down: %+v, %v", off, err)
	}
	must(t, "destroy", effects.DestroyDomain.Do(ctx, l, call(1), effects.DomainRef{ID: domain.ID}))
	must(t, "undefine", effects.UndefineDomain.Do(ctx, l, call(1), effects.DomainRef{ID: domain.ID}))
	must(t, "remove volume", effects.RemoveVolume.Do(ctx, l, call(1),
		effects.VolumeRef{Pool: "default", Name: spec.Name, Instance: spec.Instance}))
	must(t, "remove image", effects.RemoveImage.Do(ctx, l, call(1), effects.ImageRef{Pool: "default", Name: "base"}))
	inv, err = effects.Inventory.Ask(ctx, l, effects.None{})
	if err != nil || len(inv.Domains)+len(inv.Volumes)+len(inv.Images) != 0 {
		t.Errorf("inventory %+v, %v", inv, err)
	}
}

func TestErrorsCrossTheWire(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	id, spec := seedbed.NewInstanceID(), volume()
	elsewhere := spec
	elsewhere.Pool = "fast"
	text := func(err error, _ ...any) error { return err }
	clone := func(s seedbed.VolumeSpec) error { _, err := effects.CloneVolume.Do(ctx, l, call(1), s); return err }
	must(t, "clone", clone(spec))
	taken := spec
	taken.Instance = id
	bad := spec
	bad.Instance = "../x"
	_, noDomain := effects.DomainState.Ask(ctx, l, effects.DomainRef{ID: id})
	_, noTail := effects.Console.Ask(ctx, l, effects.ConsoleTail{ID: id, Tail: 0})
	for _, c := range []struct {
		name string
		err  error
		want error
		text string
	}{
		{"pool", clone(elsewhere), seedbed.ErrNotFound, `pool "fast" is not configured on node n1: there is default`},
		{"volume", clone(taken), seedbed.ErrConflict, "exists"},
		{"instance", clone(bad), seedbed.ErrInvalid, "not an instance ID"},
		{"state", noDomain, seedbed.ErrNotFound, "not defined"},
		{"start", text(effects.StartDomain.Do(ctx, l, call(1), effects.DomainRef{ID: id})), seedbed.ErrNotFound, "not defined"},
		{"no call", text(effects.StartDomain.Do(ctx, l, seedbed.Call{}, effects.DomainRef{ID: id})), seedbed.ErrInvalid, "job name"},
		{"console", noTail, seedbed.ErrInvalid, "expected 1 to 16MiB"},
		{"name", text(effects.DefineDomain.Do(ctx, l, call(1), seedbed.DomainSpec{ID: id, Name: "a/b"})), seedbed.ErrInvalid, "not a host name"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: got %v; want %v with %q", c.name, c.err, c.want, c.text)
		}
	}
}

func TestInventoryOfABrokenNode(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	_, err := effects.CloneVolume.Do(ctx, l, call(1), volume())
	must(t, "clone", err)
	l.domain.SetDown(seedbed.Errorf(seedbed.ErrUnavailable, "libvirtd does not answer"))
	inv, err := effects.Inventory.Ask(ctx, l, effects.None{})
	must(t, "inventory", err)
	if inv.Complete || !strings.Contains(inv.Problem, "libvirtd does not answer") || len(inv.Volumes) != 1 {
		t.Errorf("inventory: %+v", inv)
	}
	checks, err := effects.Health.Ask(ctx, l, effects.None{})
	if err != nil || checks[0].OK {
		t.Errorf("health: %+v, %v", checks, err)
	}
	l.pool.SetFull(true)
	if checks, err = effects.Health.Ask(ctx, l, effects.None{}); err != nil || checks[1].OK || checks[1].Hint == "" {
		t.Errorf("health: %+v, %v", checks, err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	l := start(t)
	events, done := make(chan seedbed.DomainEvent, 16), make(chan error, 1)
	go func() {
		done <- effects.Watch.Follow(context.Background(), l, func(e seedbed.DomainEvent) { events <- e })
	}()
	id := seedbed.NewInstanceID()
	next := func(want string) {
		t.Helper()
		select {
		case e := <-events:
			if e.Event != want || e.At.IsZero() || want != "resync" && e.ID != id {
				t.Fatalf("event %+v; want %s", e, want)
			}
		case <-time.After(patience):
			t.Fatalf("no event %s", want)
		}
	}
	next("resync")
	must(t, "define", effects.DefineDomain.Do(t.Context(), l, call(1), seedbed.DomainSpec{ID: id, Name: "web"}))
	next("defined")
	l.domain.SetState(id, seedbed.DomainOff, "shutdown")
	next("shutdown")
	must(t, "stop", l.stop())
	select {
	case err := <-done:
		if !errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("watch ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the watch outlives the server")
	}
}

func TestWatchEndsWithContext(t *testing.T) {
	t.Parallel()
	l := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := effects.Watch.Follow(ctx, l, func(seedbed.DomainEvent) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
