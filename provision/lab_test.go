package provision

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/internal/sleep"
	"seedbed/internal/testdb"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/intake"
	"seedbed/provision/record"
	"seedbed/provision/worker/drivertest"
	"seedbed/store"
)

const testNode = "node1"

// usual are the options of a job that has none of its own.
var usual seedbed.JobOptions

// lab is a complete installation in one process: the real store, drivers in memory, a guest plane
// and guests that behave unless told otherwise.
type lab struct {
	t      *testing.T
	db     *store.DB
	pool   *drivertest.Pool
	hv     *drivertest.Hypervisor
	host   *host
	intake *intake.Intake
	// serving is what intake was made with; serve changes it.
	serving intake.Serving
	// deaf stops the guest plane from applying, mute the guests from fetching and reporting, and
	// static from requesting leases.
	deaf, mute, static atomic.Bool
	// lease is the engines' lease: long enough for a busy computer. The lease of a killed process
	// ends when the process is stopped.
	lease time.Duration
	// patience is how long eventually waits.
	patience time.Duration
	// worker replaces host, unless it is nil.
	worker effects.Worker
	// fleet replaces both, unless it is nil.
	fleet engine.Fleet
	// ready is what withProfile makes its jobs wait for.
	ready seedbed.Ready
	// watch is the data for checking the invariants.
	watch watch
	// tune changes the engines that are started from then on.
	tune func(*engine.Config, *engine.Intervals)
}

// newLab makes a lab whose invariants are checked whenever a job has ended, and at the end of the
// test.
func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabOn(t, testdb.Open(t))
}

// newLabOn is newLab on an open store, which it closes.
func newLabOn(t *testing.T, db *store.DB) *lab {
	t.Helper()
	l := newBareLab(t, db)
	l.watched()
	return l
}

// newBareLab is newLabOn without foreign resources, and without checks of the invariants.
func newBareLab(t *testing.T, db *store.DB) *lab {
	t.Helper()
	l := &lab{t: t, db: db, pool: drivertest.NewPool(), hv: drivertest.NewHypervisor(),
		lease: patientLease, patience: 2 * promptly, tune: func(*engine.Config, *engine.Intervals) {}}
	l.host = &host{pool: l.pool, other: drivertest.NewPool(), hv: l.hv, scripts: drivertest.NewScripts(), epochs: map[seedbed.JobID]int64{},
		closed: t.Context().Done()}
	l.host.scripts.Pool = l.pool
	l.hv.Files(l.pool, l.host.other.SetShared(second))
	l.serve(func(s *intake.Serving) { s.Node = testNode })
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { l.plane(stop) })
	t.Cleanup(func() {
		close(stop)
		group.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// serve makes the intake anew, with a change of what it serves.
func (l *lab) serve(change func(*intake.Serving)) {
	change(&l.serving)
	l.intake = NewIntake(l.db, l.serving)
}

// withProfile adds an active image, a network and a profile "small".
func (l *lab) withProfile(ready seedbed.Ready) *lab {
	l.t.Helper()
	l.ready = ready
	ctx := l.t.Context()
	_, err := l.db.CreateNetwork(ctx, seedbed.Network{
		Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(), DHCP: true, NAT: true,
		Prefix: netip.MustParsePrefix("10.9.0.0/24"), Gateway: netip.MustParseAddr("10.9.0.1"),
	})
	l.ok(err)
	receipt, err := l.intake.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	_, err = l.db.CreateProfile(ctx, seedbed.Profile{
		Name: "small", Image: "debian", VCPUs: 1, Memory: 256 * seedbed.MiB, Network: "default", Ready: ready,
		UserData: []byte("#cloud-config\nruncmd: [echo hi]\n"), SSHKeys: []string{"ssh-ed25519 AAAA someone"},
	})
	l.ok(err)
	return l
}

func (l *lab) imageFile() string {
	l.t.Helper()
	path, _ := drivertest.BootableFile(l.t)
	return path
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// plane simulates the guest plane and the guests: it applies what is published, and the guests of
// running domains fetch their user-data and report in.
func (l *lab) plane(stop <-chan struct{}) {
	ctx := context.Background()
	var seq, applied int64
	for {
		hint := l.db.Hint()
		page, err := l.db.FeedPage(ctx, testNode, 0, "")
		if err == nil && !l.deaf.Load() && page.Revision > applied && l.db.SetApplied(ctx, testNode, page.Revision, time.Now()) == nil {
			applied = page.Revision
		}
		all, _ := l.db.Instances(ctx)
		for _, inst := range all {
			d, err := l.hv.DomainState(ctx, inst.ID)
			if err != nil || d.State != seedbed.DomainRunning || l.mute.Load() {
				continue
			}
			if inst.Fetched.IsZero() || inst.Ready == seedbed.ReadyReport && inst.Reported.IsZero() {
				now := time.Now()
				events := []seedbed.GuestEvent{
					{Instance: inst.ID, Kind: seedbed.GuestUserData, At: now, Method: "GET", Path: "/latest/user-data", Status: 200},
					{Instance: inst.ID, Kind: seedbed.GuestReport, At: now},
				}
				for _, nic := range inst.NICs {
					if !l.static.Load() {
						events = append(events,
							seedbed.GuestEvent{Instance: inst.ID, Kind: seedbed.GuestLease, At: now, MAC: nic.MAC, Addr: nic.Addr, Until: now.Add(time.Hour)})
					}
				}
				for i := range events {
					seq++
					events[i].Seq = seq
				}
				l.db.AddGuestEvents(ctx, testNode, "spool", events)
			}
		}
		select {
		case <-stop:
			return
		case <-hint:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// process is one running engine that can be killed as if by SIGKILL.
type process struct {
	engine *engine.Engine
	store  *mortal
	stop   func() // the soft stop; waits for the end
	kill   func() // it writes nothing any more
}

// start runs an engine; arm is called before it does anything.
func (l *lab) start(arm ...func(*process)) *process {
	l.t.Helper()
	m := &mortal{DB: l.db, ledger: &l.watch.ledger}
	cfg := engine.Config{
		Node: testNode, Workers: 2, Lease: l.lease, Poll: 10 * time.Millisecond, Attempts: 50,
		StageTimeout: map[string]time.Duration{"publish": ample, "ready": ample},
		Submit: func(ctx context.Context, req seedbed.Request) (seedbed.Receipt, error) {
			return l.intake.Submit(ctx, req, nil)
		},
		Unseal: unsealed,
	}
	p := engine.Intervals{
		Nodes: 10 * time.Millisecond, Crowd: time.Millisecond, Supersede: time.Second,
		Ask: 20 * time.Millisecond, RetryMin: 2 * time.Millisecond, RetryMax: 20 * time.Millisecond, CancelPoll: 20 * time.Millisecond,
		Settle: time.Millisecond, Applied: 5 * time.Millisecond, Ready: time.Millisecond,
		Yield: 2 * time.Millisecond, Domain: 20 * time.Millisecond,
		Resync: 50 * time.Millisecond, Call: ample, Undo: ample, Retract: ample, Announce: ample,
	}
	l.tune(&cfg, &p)
	cfg.Intervals = p
	var worker effects.Worker = l.host
	if l.worker != nil {
		worker = l.worker
	}
	var fleet engine.Fleet = engine.OneWorker(testNode, worker)
	if l.fleet != nil {
		fleet = l.fleet
	}
	e := NewEngine(cfg, m, fleet, record.Renderer{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	pr := &process{engine: e, store: m}
	pr.stop = func() { cancel(); <-done; m.lapse() }
	pr.kill = func() { m.dead.Store(true); cancel() }
	for _, f := range arm {
		f(pr)
	}
	go func() {
		defer close(done)
		if err := e.Run(ctx); err != nil {
			l.t.Errorf("run: %v", err)
		}
	}()
	l.t.Cleanup(pr.stop)
	return pr
}

// wait polls the job until it is in that state.
func (l *lab) wait(id seedbed.JobID, want seedbed.JobState) seedbed.Job {
	l.t.Helper()
	var job seedbed.Job
	l.eventually("job "+string(want), func() bool {
		var err error
		job, err = l.db.Job(l.t.Context(), id)
		l.ok(err)
		if job.State.Terminal() && job.State != want {
			l.t.Fatalf("job ended %s: %s\n%s", job.State, job.Error, l.history(id))
		}
		return job.State == want
	})
	return job
}

func (l *lab) eventually(what string, cond func() bool) {
	l.t.Helper()
	if !l.soon(cond) {
		l.t.Fatalf("never: %s", what)
	}
}

// soon waits until cond holds, and reports whether it did.
func (l *lab) soon(cond func() bool) bool {
	for deadline := time.Now().Add(l.patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// runUntil runs an engine until the job is in that state, and checks the invariants.
func (l *lab) runUntil(id seedbed.JobID, want seedbed.JobState) seedbed.Job {
	l.t.Helper()
	p := l.start()
	job := l.wait(id, want)
	p.stop()
	l.invariants(id)
	return job
}

func (l *lab) history(id seedbed.JobID) string {
	events, _ := l.db.Events(l.t.Context(), id, 0, 0)
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.Level + " " + e.Stage + ": " + e.Msg + "\n")
	}
	return b.String()
}

// steady repeats a read while the database is away, which it is for a moment after a crash.
func steady[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for {
		v, err := read()
		if !errors.Is(err, seedbed.ErrUnavailable) || ctx.Err() != nil {
			return v, err
		}
		sleep.For(ctx, 5*time.Millisecond) // between two polls
	}
}

func (l *lab) create(name string) seedbed.JobID {
	l.t.Helper()
	receipt, err := l.intake.Submit(l.t.Context(), seedbed.Request{Action: "create", Name: name, Profile: "small"}, nil)
	l.ok(err)
	return receipt.Job
}

func (l *lab) remove(name string) seedbed.JobID {
	l.t.Helper()
	receipt, err := l.intake.Submit(l.t.Context(), seedbed.Request{Action: "remove", Name: name}, nil)
	l.ok(err)
	return receipt.Job
}

// stageStates compares the journal of a job.
func (l *lab) stageStates(id seedbed.JobID, want map[string]seedbed.StageState) {
	l.t.Helper()
	stages, err := l.db.Stages(l.t.Context(), id)
	l.ok(err)
	got := map[string]seedbed.StageState{}
	for _, s := range stages {
		got[s.Name] = s.State
	}
	if d := cmp.Diff(want, got); d != "" {
		l.t.Errorf("stages (-want +got):\n%s", d)
	}
}

// up checks that the instance exists exactly once, complete and running.
func (l *lab) up(name string) {
	l.t.Helper()
	l.whole(name, seedbed.InstanceRunning)
}

// whole checks that the instance is in that state and exists exactly once: with its volume, its
// running domain, and served by the guest plane.
func (l *lab) whole(name string, state seedbed.InstanceState) {
	l.t.Helper()
	ctx := l.t.Context()
	inst, err := steady(ctx, func() (seedbed.Instance, error) {
		return l.db.InstanceByName(ctx, seedbed.InDefault(name))
	})
	l.ok(err)
	if inst.State != state {
		l.t.Errorf("instance is %s; expected %s", inst.State, state)
	}
	volumes, _ := l.pool.Volumes(ctx)
	domains, _ := l.hv.Domains(ctx)
	if len(volumes) != 1 || volumes[0].Name != inst.Volumes[0].Name || len(domains) != 1 ||
		domains[0].ID != inst.ID || domains[0].State != seedbed.DomainRunning {
		l.t.Errorf("volumes %v, domains %v", volumes, domains)
	}
	if spec, _ := l.hv.Spec(inst.ID); len(spec.Disks) != 1 || !strings.Contains(spec.Disks[0].Source, inst.Volumes[0].Name) ||
		len(spec.NICs) != 1 || spec.NICs[0].Bridge != "seedbed0" || spec.NICs[0].Tap != inst.NICs[0].ID.Tap() {
		l.t.Errorf("domain spec %+v", spec)
	}
	page, err := steady(ctx, func() (seedbed.FeedPage, error) { return l.db.FeedPage(ctx, testNode, 0, "") })
	l.ok(err)
	served := 0
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest != nil && c.Guest.ID == inst.ID {
			served++
		}
	}
	if served != 1 {
		l.t.Errorf("served %d times: %v", served, page.Changes)
	}
}

// nothing checks that the instance and everything of its own are gone, and that its name and
// address are free.
func (l *lab) nothing(name string) {
	l.t.Helper()
	ctx := l.t.Context()
	volumes, _ := l.pool.Volumes(ctx)
	domains, _ := l.hv.Domains(ctx)
	if len(volumes) != 0 || len(domains) != 0 {
		l.t.Errorf("left behind: volumes %v, domains %v", volumes, domains)
	}
	if _, err := l.db.InstanceByName(ctx, seedbed.InDefault(name)); !errors.Is(err, seedbed.ErrNotFound) {
		l.t.Errorf("the instance is there: %v", err)
	}
	page, err := l.db.FeedPage(ctx, testNode, 0, "")
	l.ok(err)
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest != nil {
			l.t.Errorf("still served: %v", c.Guest.Name)
		}
	}
	l.create(name)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault(name))
	l.ok(err)
	if inst.NICs[0].Addr != netip.MustParseAddr("10.9.0.2") {
		l.t.Errorf("the address is not free: got %s", inst.NICs[0].Addr)
	}
}
