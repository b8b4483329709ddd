package drivertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// Hypervisor is a worker.Hypervisor in memory. It outlives the servers that use it, as libvirt
// does.
type Hypervisor struct {
	failpoints
	mu       sync.Mutex
	down     error
	domains  map[seedbed.InstanceID]*domain
	watchers map[*watcher]struct{}
	seeds    map[seedbed.InstanceID]seedbed.Seed
	states   map[seedbed.InstanceID]int // of firmware and TPM, each with a number of its own
	last     int                        // of states
	reached  map[string]*Hypervisor     // by their URIs
	files    []*Pool                    // whose volumes its domains open as files
}

type domain struct {
	spec    seedbed.DomainSpec
	live    seedbed.DomainSpec // as it was started
	state   seedbed.DomainState
	foreign bool
	deaf    bool
	looks   int // at what it has used
	console []byte
	before  []byte // what the console shows of another node
	// migrated is true once it has left for another hypervisor.
	migrated bool
	line     *consoleLine // who has opened its console
	agent    func([]byte) ([]byte, error)
	screens  []net.Conn               // the server's ends of those who see its screen
	told     map[string]seedbed.Bytes // the sizes of its disks that its guest was told of
}

type watcher struct {
	queue []seedbed.DomainEvent
	wake  chan struct{}
}

// NewHypervisor makes a hypervisor without domains.
func NewHypervisor() *Hypervisor {
	return &Hypervisor{domains: map[seedbed.InstanceID]*domain{}, watchers: map[*watcher]struct{}{},
		seeds: map[seedbed.InstanceID]seedbed.Seed{}, states: map[seedbed.InstanceID]int{}}
}

// SetDown makes every call fail with err, as if libvirtd did not answer; nil ends that.
func (h *Hypervisor) SetDown(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = err
}

// AddForeign defines a domain that does not carry Seedbed's tag.
func (h *Hypervisor) AddForeign(id seedbed.InstanceID, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.domains[id] = &domain{spec: seedbed.DomainSpec{ID: id, Name: name}, state: seedbed.DomainOff, foreign: true}
}

// Forget removes a domain of any kind without a call, as an operator with virsh does.
func (h *Hypervisor) Forget(id seedbed.InstanceID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(id)
}

// SetState puts a domain into a state and sends event, as when a guest powers itself off
// (DomainOff, "shutdown") or crashes.
func (h *Hypervisor) SetState(id seedbed.InstanceID, state seedbed.DomainState, event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.domains[id]; ok {
		d.state = state
		h.send(d, event)
	}
}

// SetDeaf makes a domain's guest ignore requests to shut down; other guests shut down at once.
func (h *Hypervisor) SetDeaf(id seedbed.InstanceID, deaf bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.domains[id]; ok {
		d.deaf = deaf
	}
}

// Spec returns the spec that the domain was defined with.
func (h *Hypervisor) Spec(id seedbed.InstanceID) (seedbed.DomainSpec, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.domains[id]
	if !ok {
		return seedbed.DomainSpec{}, false
	}
	return d.spec, true
}

// effect runs f under the lock, between the failpoints, unless the hypervisor is set down.
func (h *Hypervisor) effect(ctx context.Context, name string, f func() error) error {
	return h.around(ctx, name, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.down != nil {
			return h.down
		}
		return f()
	})
}

// DefineDomain implements worker.Definer.
func (h *Hypervisor) DefineDomain(ctx context.Context, spec seedbed.DomainSpec) error {
	return h.effect(ctx, "DefineDomain", func() error {
		if there, err := h.taken(spec); err != nil || there {
			return err
		}
		d := &domain{spec: spec, state: seedbed.DomainOff}
		h.domains[spec.ID] = d
		if h.states[spec.ID] == 0 {
			h.last++
			h.states[spec.ID] = h.last
		}
		h.send(d, "defined")
		return nil
	})
}

// taken reports whether the domain exists, and returns ErrConflict if another one has its ID or name.
func (h *Hypervisor) taken(spec seedbed.DomainSpec) (bool, error) {
	for id, d := range h.domains {
		switch same := id == spec.ID && d.spec.Name == spec.Name; {
		case same && !d.foreign:
			return true, nil
		case same || id == spec.ID || d.spec.Name == spec.Name:
			return false, seedbed.Errorf(seedbed.ErrConflict, "domain %s (%s) exists and is not this instance's", d.spec.Name, id)
		}
	}
	return false, nil
}

// SeedDomain implements worker.Definer.
func (h *Hypervisor) SeedDomain(ctx context.Context, s seedbed.Seed) error {
	return h.effect(ctx, "SeedDomain", func() error {
		if err := s.Check(); err != nil {
			return err
		}
		h.seeds[s.ID] = s
		return nil
	})
}

// Seed returns the files on an instance's CD-ROM, by name; nil if it has none.
func (h *Hypervisor) Seed(id seedbed.InstanceID) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.seeds[id]
	if !ok {
		return nil
	}
	files := map[string]string{}
	for _, f := range s.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

// StartDomain implements worker.Power.
func (h *Hypervisor) StartDomain(ctx context.Context, id seedbed.InstanceID) error {
	return h.effect(ctx, "StartDomain", func() error {
		d, err := h.ours(id)
		if err != nil {
			return err
		}
		if d == nil {
			return seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", id)
		}
		if d.state != seedbed.DomainRunning {
			d.state, d.live, d.migrated = seedbed.DomainRunning, d.spec, false
			h.send(d, "started")
		}
		return nil
	})
}

// ShutdownDomain implements worker.Power.
func (h *Hypervisor) ShutdownDomain(ctx context.Context, id seedbed.InstanceID) error {
	return h.effect(ctx, "ShutdownDomain", func() error {
		d, err := h.ours(id)
		if d == nil || err != nil {
			return err
		}
		if d.state == seedbed.DomainPaused {
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s is paused: its guest cannot be asked", d.spec.Name)
		}
		if d.state == seedbed.DomainRunning && !d.deaf {
			d.state = seedbed.DomainOff
			h.send(d, "shutdown")
		}
		return nil
	})
}

// DestroyDomain implements worker.Power.
func (h *Hypervisor) DestroyDomain(ctx context.Context, id seedbed.InstanceID) error {
	return h.effect(ctx, "DestroyDomain", func() error {
		d, err := h.ours(id)
		if d == nil || err != nil {
			return err
		}
		if d.state != seedbed.DomainOff {
			d.state = seedbed.DomainOff
			h.send(d, "stopped")
		}
		return nil
	})
}

// DomainState implements worker.Inspector.
func (h *Hypervisor) DomainState(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.look(ctx, id)
	if err != nil {
		return seedbed.DomainInfo{}, err
	}
	return d.info(), nil
}

// Domains implements worker.Inspector.
func (h *Hypervisor) Domains(ctx context.Context) ([]seedbed.DomainInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if h.down != nil {
		return nil, h.down
	}
	var all []seedbed.DomainInfo
	for _, id := range slices.Sorted(maps.Keys(h.domains)) {
		if d := h.domains[id]; !d.foreign {
			all = append(all, d.info())
		}
	}
	return all, nil
}

// DomainXML implements worker.Inspector.
func (h *Hypervisor) DomainXML(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[seedbed.InstanceID]string{}
	for _, id := range ids {
		d, err := h.look(ctx, id)
		if errors.Is(err, seedbed.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[id] = fmt.Sprintf("<domain type='test'><name>%s</name><uuid>%s</uuid></domain>", d.spec.Name, id)
	}
	return all, nil
}

// Health implements worker.Checker.
func (h *Hypervisor) Health(context.Context) []seedbed.Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := seedbed.Check{Name: "hypervisor", OK: h.down == nil}
	if h.down != nil {
		c.Detail = h.down.Error()
	}
	return []seedbed.Check{c}
}

// look finds a tagged domain for a method that only reads.
func (h *Hypervisor) look(ctx context.Context, id seedbed.InstanceID) (*domain, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if h.down != nil {
		return nil, h.down
	}
	d, ok := h.domains[id]
	if !ok || d.foreign {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", id)
	}
	return d, nil
}

// ours finds a domain to change: nil if it is absent, ErrConflict if it is not tagged.
func (h *Hypervisor) ours(id seedbed.InstanceID) (*domain, error) {
	d, ok := h.domains[id]
	if ok && d.foreign {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "domain %s does not carry seedbed's tag", id)
	}
	return d, nil
}

func (h *Hypervisor) drop(id seedbed.InstanceID) {
	if d, ok := h.domains[id]; ok {
		delete(h.domains, id)
		h.send(d, "undefined")
	}
}

func (d *domain) info() seedbed.DomainInfo {
	return seedbed.DomainInfo{ID: d.spec.ID, Name: d.spec.Name, Project: d.spec.Project, Job: d.spec.Job, State: d.state}
}

func (h *Hypervisor) send(d *domain, event string) {
	if d.state == seedbed.DomainOff || d.state == seedbed.DomainCrashed {
		d.hangUp()
	}
	if d.foreign {
		return
	}
	for w := range h.watchers {
		w.put(seedbed.DomainEvent{ID: d.spec.ID, Name: d.spec.Name, Event: event, At: time.Now()})
	}
}

func (w *watcher) put(e seedbed.DomainEvent) {
	w.queue = append(w.queue, e)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Watch implements worker.Watcher.
func (h *Hypervisor) Watch(ctx context.Context, event func(seedbed.DomainEvent)) error {
	w := &watcher{wake: make(chan struct{}, 1)}
	h.mu.Lock()
	if h.down != nil {
		defer h.mu.Unlock()
		return h.down
	}
	w.put(seedbed.DomainEvent{Event: "resync", At: time.Now()})
	h.watchers[w] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, w)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		}
		h.mu.Lock()
		queue := w.queue
		w.queue = nil
		h.mu.Unlock()
		for _, e := range queue {
			event(e)
		}
	}
}

// Report implements worker.Inspector: a host of 4 threads and 8 GiB, of which 6 are free.
func (h *Hypervisor) Report(ctx context.Context) (r seedbed.NodeReport, err error) {
	err = h.effect(ctx, "Report", func() error {
		r = seedbed.NodeReport{CPUs: 4, Load: 0.5, Memory: 8 * seedbed.GiB, MemoryFree: 6 * seedbed.GiB, Arch: "x86_64",
			Hypervisor: "memory (none)"}
		for _, d := range h.domains {
			if d.state != seedbed.DomainOff && d.state != seedbed.DomainCrashed {
				r.Domains++
			}
		}
		return nil
	})
	return r, err
}
