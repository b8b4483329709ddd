package provision

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/provision/cleanup"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
	"seedbed/provision/worker/drivertest"
	"seedbed/store"
)

// host is a worker that calls the drivers directly, with the same fence as the real one: it refuses
// a call under an epoch below the highest seen.
type host struct {
	pool, other *drivertest.Pool // the first, and that called second
	hv          *drivertest.Hypervisor
	scripts     *drivertest.Scripts
	// hooked runs scripts of hooks; nil if there are none.
	hooked func(context.Context, seedbed.HookRun, func(seedbed.OutputLine)) (seedbed.HookResult, error)
	// probe answers probes of addresses; nil means that the worker is of a release without them.
	probe func([]seedbed.AddressProbe) seedbed.AddressesProbed
	// node is the node's name; empty means testNode.
	node string
	// closed is closed when the test ends; nil for a host that freezes no guest.
	closed <-chan struct{}
	// silent makes it answer nothing.
	silent atomic.Bool
	// boot is the boot of its host; nil if it reports none.
	boot atomic.Pointer[string]
	// inventories counts the inventories taken, and watchers the open watches.
	inventories, watchers atomic.Int64
	// partial makes inventories incomplete.
	partial atomic.Bool

	// agent is the fence agent that it has; nil for none. fences are the calls of it.
	agent  func(seedbed.FenceCall) error
	fences []seedbed.FenceCall

	mu     sync.Mutex
	epochs map[seedbed.JobID]int64
	// superseded are the calls for which it was told that others continue the job.
	superseded []seedbed.Call
}

// answers fails for a host that is silent.
func (h *host) answers() error {
	if h.silent.Load() {
		return seedbed.Errorf(seedbed.ErrUnavailable, "the worker of node %s does not answer", h.node)
	}
	return nil
}

func (h *host) fence(call seedbed.Call) error {
	if err := h.answers(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if call.Epoch < h.epochs[call.Job] {
		return seedbed.Errorf(seedbed.ErrStale, "epoch %d of job %s is over", call.Epoch, call.Job)
	}
	h.epochs[call.Job] = call.Epoch
	return nil
}

func (h *host) CloneVolume(ctx context.Context, call seedbed.Call, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error) {
	if err := h.fence(call); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return h.in(spec.Pool).CloneVolume(ctx, call.Job, spec)
}

func (h *host) RemoveVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.in(pool).RemoveVolume(ctx, name, id)
}

func (h *host) ImportImage(
	ctx context.Context, call seedbed.Call, spec seedbed.ImageSpec, progress func(seedbed.Progress),
) (seedbed.ImageInfo, error) {
	if err := h.fence(call); err != nil {
		return seedbed.ImageInfo{}, err
	}
	return h.pool.ImportImage(ctx, call.Job, spec, progress)
}

func (h *host) RemoveImage(ctx context.Context, call seedbed.Call, _, name string, of seedbed.JobID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.pool.RemoveImage(ctx, cmp.Or(of, call.Job), name)
}

func (h *host) DefineDomain(ctx context.Context, call seedbed.Call, spec seedbed.DomainSpec) error {
	if err := h.fence(call); err != nil {
		return err
	}
	if err := checkDocument(spec); err != nil {
		return err
	}
	return h.hv.DefineDomain(ctx, spec)
}

func (h *host) SeedDomain(ctx context.Context, call seedbed.Call, s seedbed.Seed) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.SeedDomain(ctx, s)
}

func (h *host) StartDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	if mapped := h.pool.MappedVolumes(id); len(mapped) > 0 { // both would write
		return seedbed.Errorf(seedbed.ErrInUse, "volumes %v of domain %s are mapped", mapped, id)
	}
	return h.hv.StartDomain(ctx, id)
}

func (h *host) ShutdownDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.ShutdownDomain(ctx, id)
}

func (h *host) DestroyDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.DestroyDomain(ctx, id)
}

func (h *host) UndefineDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.UndefineDomain(ctx, id)
}

func (h *host) UndefineKept(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.UndefineKept(ctx, id)
}

func (h *host) DomainState(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainInfo, error) {
	if err := h.answers(); err != nil {
		return seedbed.DomainInfo{}, err
	}
	return h.hv.DomainState(ctx, id)
}

func (h *host) Inventory(ctx context.Context) (seedbed.Inventory, error) {
	if err := h.answers(); err != nil {
		return seedbed.Inventory{}, err
	}
	h.inventories.Add(1)
	domains, err := h.hv.Domains(ctx)
	inv := seedbed.Inventory{Node: cmp.Or(h.node, testNode), Complete: err == nil && !h.partial.Load(), Domains: domains}
	if !inv.Complete {
		inv.Problem = "libvirt does not answer"
	}
	return inv, nil
}

func (h *host) Watch(ctx context.Context, event func(seedbed.DomainEvent)) error {
	if err := h.answers(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h.watchers.Add(1)
	defer h.watchers.Add(-1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for h.answers() == nil && ctx.Err() == nil {
			sleep.For(ctx, 5*time.Millisecond) // between two polls
		}
		stop()
	}()
	err := h.hv.Watch(ctx, event)
	stop()
	<-ended
	return cmp.Or(h.answers(), err)
}

// mortal is the store as one process sees it: once the process is killed nothing is written any
// more. There are failpoints before and after each write.
type mortal struct {
	*store.DB
	dead   atomic.Bool
	frozen atomic.Pointer[chan struct{}] // writes wait for it, as a stopped process does

	// ledger records what was written; nil records nothing.
	ledger *ledger
	// inHand is the stage that was begun last.
	inHand atomic.Pointer[string]
	// cancels is how often it was read that a job is to be cancelled. The engine acts on that before
	// it reads again.
	cancels atomic.Int32
	// undoing is the stage that is undone next, once the undo has begun.
	undoing atomic.Pointer[string]

	mu   sync.Mutex
	hook func(write, stage string, point drivertest.Point) error
	// held are the jobs that were claimed.
	held []seedbed.JobRef
}

var (
	_ cleanup.Slots  = (*store.DB)(nil)
	_ effects.Worker = (*fleet.Client)(nil)
)

var errKilled = errors.New("killed")

func (m *mortal) fail(hook func(write, stage string, point drivertest.Point) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = hook
}

func (m *mortal) around(write, stage string, do func() error) error {
	if c := m.frozen.Load(); c != nil {
		<-*c
	}
	m.mu.Lock()
	hook := m.hook
	m.mu.Unlock()
	if hook == nil {
		hook = func(string, string, drivertest.Point) error { return nil }
	}
	if m.dead.Load() {
		return errKilled
	}
	if err := hook(write, stage, drivertest.Before); err != nil {
		return err
	}
	if m.dead.Load() {
		return errKilled
	}
	if err := do(); err != nil {
		return err
	}
	return hook(write, stage, drivertest.After)
}

func (m *mortal) Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error) {
	job, err := m.DB.Job(ctx, id)
	if err == nil && job.Cancel {
		m.cancels.Add(1)
	}
	return job, err
}

func (m *mortal) ClaimNext(ctx context.Context, c seedbed.ClaimOptions) (job *seedbed.Job, err error) {
	err = m.around("claim", "", func() error {
		if job, err = m.DB.ClaimNext(ctx, c); job != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.held = append(m.held, job.Ref())
		}
		return err
	})
	return job, err
}

// lapse ends the leases of a killed process, as time would.
func (m *mortal) lapse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dead.Load() {
		return
	}
	for _, ref := range m.held {
		_, _ = m.DB.RenewLease(context.Background(), ref, time.Millisecond) // it may belong to another process by now
	}
	m.held = nil
}

func (m *mortal) Postpone(ctx context.Context, ref seedbed.JobRef, wait time.Duration, spent bool) error {
	return m.around("postpone", "", func() error { return m.taken(ref, m.DB.Postpone(ctx, ref, wait, spent)) })
}

func (m *mortal) LogOutput(ctx context.Context, ref seedbed.JobRef, stage string, lines []seedbed.OutputLine) error {
	return m.around("output", stage, func() error { return m.taken(ref, m.DB.LogOutput(ctx, ref, stage, lines)) })
}

func (m *mortal) RenewLease(ctx context.Context, ref seedbed.JobRef, lease time.Duration) (cancel bool, err error) {
	err = m.around("renew", "", func() error { cancel, err = m.DB.RenewLease(ctx, ref, lease); return err })
	return cancel, err
}

func (m *mortal) Release(ctx context.Context, ref seedbed.JobRef) error {
	return m.around("release", "", func() error { return m.taken(ref, m.DB.Release(ctx, ref)) })
}

func (m *mortal) Step(ctx context.Context, ref seedbed.JobRef, s seedbed.Step) error {
	write := func() error {
		err := m.taken(ref, m.DB.Step(ctx, ref, s))
		if err == nil {
			m.inHand.Store(&s.Next)
		}
		return err
	}
	return m.around("step", s.Done, func() error {
		if n := len(s.Events); n > 0 { // it writes them as LogEvent does
			return m.around("event", s.Events[n-1].Stage, write)
		}
		return write()
	})
}

func (m *mortal) Undo(ctx context.Context, ref seedbed.JobRef, cause string) error {
	return m.around("undo", "", func() error { return m.back(ctx, ref, m.DB.Undo(ctx, ref, cause)) })
}

func (m *mortal) Undone(ctx context.Context, ref seedbed.JobRef, stage, problem string, left ...seedbed.Orphan) error {
	return m.around("undone", stage, func() error { return m.back(ctx, ref, m.DB.Undone(ctx, ref, stage, problem, left...)) })
}

// back wraps a write of an undo: it records which stage comes next.
func (m *mortal) back(ctx context.Context, ref seedbed.JobRef, err error) error {
	if err := m.taken(ref, err); err != nil {
		return err
	}
	journal, err := m.DB.Stages(ctx, ref.ID)
	if err != nil {
		return nil // the write was accepted nevertheless
	}
	next := ""
	for _, row := range journal {
		if row.State == seedbed.StageIntent || row.State == seedbed.StageDone {
			next = row.Name
		}
	}
	m.undoing.Store(&next)
	return nil
}

func (m *mortal) Finish(ctx context.Context, ref seedbed.JobRef, out seedbed.JobResult) error {
	return m.around("finish", "", func() error { return m.taken(ref, m.DB.Finish(ctx, ref, out)) })
}

func (m *mortal) LogEvent(ctx context.Context, ref seedbed.JobRef, e seedbed.Event) error {
	return m.around("event", e.Stage, func() error { return m.taken(ref, m.DB.LogEvent(ctx, ref, e)) })
}

func (m *mortal) Publish(
	ctx context.Context, ref seedbed.JobRef, node string, g seedbed.Guest, docs seedbed.Documents,
) (rev int64, err error) {
	err = m.around("publish", "", func() error { rev, err = m.DB.Publish(ctx, ref, node, g, docs); return err })
	return rev, err
}

func (m *mortal) Refresh(
	ctx context.Context, node string, id seedbed.InstanceID, render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
) (rev int64, err error) {
	err = m.around("refresh", "", func() error { rev, err = m.DB.Refresh(ctx, node, id, render); return err })
	return rev, err
}

func (m *mortal) Retract(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (rev int64, err error) {
	err = m.around("retract", "", func() error { rev, err = m.DB.Retract(ctx, ref, node, id); return err })
	return rev, err
}

func (m *mortal) Arrive(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (rev int64, err error) {
	err = m.around("arrive", "", func() error { rev, err = m.DB.Arrive(ctx, ref, node, id); return err })
	return rev, err
}

func (m *mortal) Move(
	ctx context.Context, ref seedbed.JobRef, node, home string, id seedbed.InstanceID,
	render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
) (rev int64, err error) {
	err = m.around("move", "", func() error { rev, err = m.DB.Move(ctx, ref, node, home, id, render); return err })
	return rev, err
}

func (m *mortal) Exchange(ctx context.Context, ref seedbed.JobRef, to seedbed.RebuildSide) error {
	return m.around("exchange", string(to), func() error { return m.taken(ref, m.DB.Exchange(ctx, ref, to)) })
}
