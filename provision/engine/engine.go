package engine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
)

// Config configures an engine. A zero field takes the default that its comment names.
type Config struct {
	// Node is this control host, whose worker is used for jobs that name no node.
	Node string
	// Owner names this engine in the rows that it holds. It must differ from that of every other
	// running engine. Default: the node, the process and a random part.
	Owner string
	// Workers is how many jobs run at the same time. Default 4. A job that only waits, for the
	// guest plane or the guest, does not count.
	Workers int
	// PerNode and PerPool limit the jobs that run at the same time on one node and on one pool,
	// across all engines. Default: no limit.
	PerNode, PerPool int
	// Lease is how long a silent holder keeps its job. Default 15 s.
	Lease time.Duration
	// Poll is how often the queue is polled if no hint comes. Default 500 ms.
	Poll time.Duration
	// Attempts is how often one stage is started before the job fails. Default 5.
	Attempts int
	// StageTimeout limits one attempt of a stage, by stage name. Default 10 min.
	StageTimeout map[string]time.Duration
	// Hooks are run before and after stages; those with an endpoint are sent by Trigger.
	Hooks   []seedbed.StageHook
	Trigger Trigger
	// Submit requests other jobs, and Unseal opens the secrets of fence agents, for jobs that fence nodes.
	Submit func(context.Context, seedbed.Request) (seedbed.Receipt, error)
	Unseal func([]byte) (map[string]string, error)
	Log    *slog.Logger
	// Intervals are the internal waits. They are not in the configuration; tests shorten them.
	Intervals Intervals
}

// Engine claims jobs and runs them. A process has one engine.
type Engine struct {
	cfg     Config
	store   Store
	fleet   Fleet
	log     *slog.Logger
	domains *domainWatch
	// foreign is updated by resync, which compares it with instances.
	foreign   foreignMACs
	instances instanceCache
	planner   Planner
	intervals Intervals
	slots     *slots
	last      string // the project of the job that was claimed last
}

// Intervals are the internal waits of an engine and its plans. A zero field takes its default.
type Intervals struct {
	RetryMin, RetryMax time.Duration // between two tries of something that does not answer
	CancelPoll         time.Duration // how soon a cancel is seen
	Settle             time.Duration // between two polls of the store after a hint
	Applied            time.Duration // between two checks of what the guest plane has applied
	Ready              time.Duration // between two checks of whether a guest is ready
	Yield              time.Duration // until a waiting job yields its slot
	Ask                time.Duration // between two requests to a guest to shut down
	Domain             time.Duration // between two checks of a domain whose guest is awaited
	Resync             time.Duration // between two inventories
	Call               time.Duration // one question to the worker, or one write
	Crowd              time.Duration // between two searches for a job for which there is room
	Nodes              time.Duration // between two looks at which nodes there are
	Supersede          time.Duration // for one worker to stop what it does for a job
	Undo               time.Duration // one stage's undo, all tries
	Retract            time.Duration // for the guest plane to forget an instance
	Announce           time.Duration // for the guest plane to tell a guest of its end
}

func (i Intervals) withDefaults() Intervals {
	for _, f := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&i.RetryMin, 200 * time.Millisecond},
		{&i.RetryMax, 10 * time.Second},
		{&i.CancelPoll, 500 * time.Millisecond},
		{&i.Settle, 20 * time.Millisecond},
		{&i.Applied, 50 * time.Millisecond},
		{&i.Ready, 200 * time.Millisecond},
		{&i.Yield, time.Second},
		{&i.Ask, 10 * time.Second},
		{&i.Domain, 5 * time.Second},
		{&i.Resync, time.Minute},
		{&i.Call, 30 * time.Second},
		{&i.Crowd, 100 * time.Millisecond},
		{&i.Nodes, time.Second},
		{&i.Supersede, 10 * time.Second},
		{&i.Undo, 2 * time.Minute},
		{&i.Retract, 30 * time.Second},
		{&i.Announce, 5 * time.Second},
	} {
		if *f.of <= 0 {
			*f.of = f.value
		}
	}
	return i
}

// New makes an engine, which does jobs as planner says. Nothing happens before Run.
func New(cfg Config, store Store, fleet Fleet, planner Planner) *Engine {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&cfg.Lease, 15*time.Second)
	def(&cfg.Poll, 500*time.Millisecond)
	if cfg.Workers <= 0 {
		cfg.Workers = 4
	}
	if cfg.Attempts <= 0 {
		cfg.Attempts = 5
	}
	if cfg.Owner == "" {
		cfg.Owner = fmt.Sprintf("%s/%d/%s", cfg.Node, os.Getpid(), seedbed.NewJobID().Short())
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		cfg: cfg, store: store, fleet: fleet, log: cfg.Log, domains: newDomainWatch(), planner: planner,
		intervals: cfg.Intervals.withDefaults(), slots: newSlots(cfg.Workers),
	}
}

// Run claims and runs jobs, and follows the domains, until ctx ends. It then cancels the running
// stages and releases their jobs to other engines without using up an attempt. It returns nil when
// all of that has ended.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { e.follow(ctx) })

	for e.slots.acquire(ctx) {
		// A slot is held only while claiming. While no job is found, the slot is free for a waiting
		// job that wants to reacquire one.
		hint := e.store.Hint()
		job, claimed, err := e.claim(ctx)
		if job != nil {
			slot := newSlot(e.slots, job.Project)
			group.Go(func() { e.work(ctx, job, claimed, slot) })
			continue
		}
		e.slots.release()
		if err != nil {
			hint = nil // a failing store is asked no more often than it is polled
		} else if e.cfg.PerNode > 0 || e.cfg.PerPool > 0 {
			sleep.For(ctx, e.intervals.Crowd) // finding no room examines all waiting jobs
		}
		e.pause(ctx, hint, e.cfg.Poll)
	}
	return nil
}

// claim claims the next job; nil if there is none. The lease lasts at least from claimed.
func (e *Engine) claim(ctx context.Context) (job *seedbed.Job, claimed time.Time, err error) {
	claimed = time.Now()
	job, err = e.claimNext(ctx, seedbed.ClaimOptions{
		Owner: e.cfg.Owner, Lease: e.cfg.Lease, Kinds: e.planner.Kinds(), PerNode: e.cfg.PerNode, PerPool: e.cfg.PerPool,
		Slots: e.slots.holders(), Last: e.last,
	})
	if job != nil {
		e.last = job.Project
	}
	if err != nil && ctx.Err() == nil {
		e.log.Error("claim a job", "err", err)
	}
	return job, claimed, err
}

// claimGrace is how long a claim in progress may take after the engine is stopped.
const claimGrace = 2 * time.Second

// claimNext claims a job. The end of ctx does not cancel it at once: the claim might succeed
// without this engine learning of it, and its job would then wait until the lease ends.
func (e *Engine) claimNext(ctx context.Context, ask seedbed.ClaimOptions) (*seedbed.Job, error) {
	claiming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		sleep.For(claiming, claimGrace)
		cancel()
	})
	defer stop()
	return e.store.ClaimNext(claiming, ask)
}

// pause waits for a hint, for at most d. Hints come with every write, so a short rest after each
// keeps a busy store from being polled without pause.
func (e *Engine) pause(ctx context.Context, hint <-chan struct{}, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-hint:
		sleep.For(ctx, min(d, e.intervals.Settle))
	}
}
