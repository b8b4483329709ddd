package provision

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"seedbed"
)

// Config is how an engine works. A zero field takes the default that is named.
type Config struct {
	// Node is this control host, whose worker is asked where a job names no node.
	Node string
	// Owner names this engine in the rows that it holds; it must differ from any
	// other running one's. Default: the node, the process and a random part.
	Owner string
	// Workers is how many jobs are at work at the same time. Default 4. One that only
	// waits, for the guest plane or the guest, is not.
	Workers int
	// PerNode and PerPool are how many jobs run at the same time on one node and on
	// one pool, of all engines together. Default: without limit.
	PerNode, PerPool int
	// Lease is how long a holder that is silent keeps its job. Default 15 s.
	Lease time.Duration
	// Poll is how often the queue is looked at when no hint comes. Default 500 ms.
	Poll time.Duration
	// Attempts is how often one stage is started before its job is given up. Default 5.
	Attempts int
	// StageTimeout bounds one attempt of a stage, by stage name. Default 10 min.
	StageTimeout map[string]time.Duration
	// Hooks are run before and after stages, through Trigger.
	Hooks   []seedbed.StageHook
	Trigger Trigger
	// Renderer makes the records that are published.
	Renderer Renderer
	Log      *slog.Logger
}

// Engine claims jobs and runs them. One process has one.
type Engine struct {
	cfg     Config
	store   Store
	fleet   Fleet
	log     *slog.Logger
	domains *domainWatch
	// foreign is kept by resync, which goes by instances.
	foreign   foreignMACs
	instances instanceCache
	plan      func(*task) []stage
	intervals intervals
	slots     *slots
}

// intervals are the engine's internal waits; they are not configurable.
type intervals struct {
	retryMin, retryMax time.Duration // between two tries of something that does not answer
	cancelPoll         time.Duration // how soon a cancel is seen
	settle             time.Duration // between two looks at the store after a hint
	applied            time.Duration // between two looks at what the guest plane has applied
	ready              time.Duration // between two looks at whether a guest is ready
	yield              time.Duration // until a job that waits yields its slot
	ask                time.Duration // between two requests to a guest to shut down
	domain             time.Duration // between two looks at a domain whose guest is awaited
	resync             time.Duration // between two inventories
	call               time.Duration // one question to the worker, or one write
	crowd              time.Duration // between two looks for a job for which there is room
	nodes              time.Duration // between two looks at which nodes there are
	supersede          time.Duration // for one worker to end what it does for a job
	undo               time.Duration // one stage's undo, all tries
	retract            time.Duration // for the guest plane to forget an instance
	announce           time.Duration // for the guest plane to tell a guest of its end
}

func defaultIntervals() intervals {
	return intervals{
		retryMin: 200 * time.Millisecond, retryMax: 10 * time.Second,
		cancelPoll: 500 * time.Millisecond, settle: 20 * time.Millisecond, applied: 50 * time.Millisecond,
		ready: 200 * time.Millisecond, yield: time.Second,
		nodes: time.Second, supersede: 10 * time.Second,
		ask: 10 * time.Second, domain: 5 * time.Second, resync: time.Minute, call: 30 * time.Second,
		crowd: 100 * time.Millisecond, undo: 2 * time.Minute, retract: 30 * time.Second, announce: 5 * time.Second,
	}
}

// NewEngine makes an engine. Nothing happens before Run.
func NewEngine(cfg Config, store Store, fleet Fleet) *Engine {
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
	return &Engine{cfg: cfg, store: store, fleet: fleet, log: cfg.Log, domains: newDomainWatch(), plan: stages, intervals: defaultIntervals(), slots: newSlots(cfg.Workers)}
}

// Run claims and runs jobs, and follows the domains, until ctx ends. Then
// running stages are cancelled and their jobs released to whoever comes next,
// without burning an attempt. It returns nil once all that has ended.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { e.follow(ctx) })

	for e.slots.acquire(ctx) {
		// A slot is taken for the claim alone: while there is no job it is free for one
		// that wants its own back.
		hint := e.store.Hint()
		job, claimed, err := e.claim(ctx)
		if job != nil {
			group.Go(func() { e.work(ctx, job, claimed) })
			continue
		}
		e.slots.release()
		if err != nil {
			hint = nil // a failing store is asked no more often than it is polled
		} else if e.cfg.PerNode > 0 || e.cfg.PerPool > 0 {
			sleep(ctx, e.intervals.crowd) // finding no room takes a look at all that wait
		}
		e.pause(ctx, hint, e.cfg.Poll)
	}
	return nil
}

// claim claims the next job; nil when there is none. claimed is a moment from
// which the lease surely lasts.
func (e *Engine) claim(ctx context.Context) (job *seedbed.Job, claimed time.Time, err error) {
	claimed = time.Now()
	job, err = e.claimNext(ctx, seedbed.Claiming{Owner: e.cfg.Owner, Lease: e.cfg.Lease, Kinds: plannable(), PerNode: e.cfg.PerNode, PerPool: e.cfg.PerPool})
	if err != nil && ctx.Err() == nil {
		e.log.Error("claim a job", "err", err)
	}
	return job, claimed, err
}

// claimGrace is how long a claim that is under way may take once the engine is stopped.
const claimGrace = 2 * time.Second

// claimNext claims a job. The end of ctx does not cut it off at once: it might be
// made all the same, unknown to us, and its job would then wait for the lease's end.
func (e *Engine) claimNext(ctx context.Context, ask seedbed.Claiming) (*seedbed.Job, error) {
	claiming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		sleep(claiming, claimGrace)
		cancel()
	})
	defer stop()
	return e.store.ClaimNext(claiming, ask)
}

// pause waits for a hint, at most d. Hints come with every write, so a short
// rest after one keeps a busy store from being asked without end.
func (e *Engine) pause(ctx context.Context, hint <-chan struct{}, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-hint:
		sleep(ctx, min(d, e.intervals.settle))
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
