package cleanup

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"seedbed"
)

// Presence records which domains are missing, and releases addresses.
type Presence interface {
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	NotePresence(ctx context.Context, node string, present []seedbed.InstanceID, at time.Time) error
	// StaleMappings returns the instances whose domain was first missed at cutoff or before, that
	// are not held and that no job works on.
	StaleMappings(ctx context.Context, cutoff time.Time) ([]seedbed.Instance, error)
	// DropMapping checks that again and releases the addresses. It reports whether it did.
	DropMapping(ctx context.Context, id seedbed.InstanceID, cutoff time.Time) (bool, error)
}

// Expiries are the ends of instances that are needed only for a while.
type Expiries interface {
	// Expired returns the instances that have expired at now.
	Expired(ctx context.Context, now time.Time) ([]seedbed.Instance, error)
}

// Leases are the DHCP leases that were reported.
type Leases interface {
	ExpiredLeases(ctx context.Context, now time.Time) ([]seedbed.Lease, error)
	DropLeases(ctx context.Context, now time.Time) (int, error)
}

// Records are kept only for a while: deliveries, access records, changes made through the API, and
// the output of jobs.
type Records interface {
	CountDeliveries(ctx context.Context, before time.Time) (int, error)
	DropDeliveries(ctx context.Context, before time.Time) (int, error)
	CountGuestEvents(ctx context.Context, before time.Time) (int, error)
	DropGuestEvents(ctx context.Context, before time.Time) (int, error)
	CountAudit(ctx context.Context, before time.Time) (int, error)
	DropAudit(ctx context.Context, before time.Time) (int, error)
	CountRequests(ctx context.Context, before time.Time) (int, error)
	DropRequests(ctx context.Context, before time.Time) (int, error)
	CountSessions(ctx context.Context, before time.Time) (int, error)
	DropSessions(ctx context.Context, before time.Time) (int, error)
	CountSignIns(ctx context.Context, before time.Time) (int, error)
	DropSignIns(ctx context.Context, before time.Time) (int, error)
	CountOutput(ctx context.Context, before time.Time) (int, error)
	DropOutput(ctx context.Context, before time.Time) (int, error)
}

// Notices are the events for the endpoints of the installation, both delivered and new ones.
type Notices interface {
	CountOutgoing(ctx context.Context, before time.Time) (int, error)
	DropOutgoing(ctx context.Context, before time.Time) (int, error)
	// CleanupFinished records how many things each task removed.
	CleanupFinished(ctx context.Context, taken map[string]int) error
}

// Store is the part of the database that the cleanup uses.
type Store interface {
	Presence
	Expiries
	Leases
	Records
	Notices
	Leftovers
	Targets
	Timetable
}

// Inventories returns what exists on the nodes.
type Inventories interface {
	// Nodes returns the nodes by name.
	Nodes() []seedbed.Node
	Inventory(ctx context.Context, node string) (seedbed.Inventory, error)
}

// Config configures the cleanup. A zero duration takes the default that its comment names.
type Config struct {
	// Grace is how long a domain must have been missing before its addresses are released, and how
	// long something must have been left behind before it is undone. Default 10 min.
	Grace time.Duration
	// Deliveries and Access are how long webhook deliveries, in and out, and guest events are kept.
	// Default 7 days.
	Deliveries, Access time.Duration
	// Output is how long a job's output is kept after the job's end. Default 30 days.
	Output time.Duration
	// Audit is how long the record of changes is kept. Default one year.
	Audit time.Duration
	// RemovedBackups is how long the backups of an instance are kept after it was removed, in targets with a retention. Default one year.
	RemovedBackups time.Duration
	// Submit accepts the job that stops or removes an expired instance, or removes a snapshot that its schedule does not keep.
	Submit func(ctx context.Context, req seedbed.Request) error
	// Trash is where items whose time is over are purged; nil purges nothing.
	Trash TrashBin
	// Backups has superfluous backups be removed; nil removes none.
	Backups Backups
	// Now is the clock; default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Options change one run.
type Options struct {
	// DryRun reports what would be removed and writes nothing.
	DryRun bool
	// Force continues although more than half of at least 4 instances are missing at once.
	Force bool
}

// Report is what one run of the cleanup did or, with DryRun, would do.
type Report = seedbed.CleanupReport

// Item is one thing that the cleanup removed.
type Item = seedbed.CleanupItem

// Cleaner is the task "mappings". It releases addresses whose domain is gone, removes expired
// leases and old records, stops and removes instances that have expired, and has unfinished undos of jobs repeated. Apart from
// Seedbed's bookkeeping it deletes only what has been in a pool's trash for its time.
type Cleaner struct {
	cfg   Config
	store Store
	hosts Inventories
	// running allows only one run at a time, because each relies on what the previous one has
	// recorded.
	running sync.Mutex
	// pruned is when the backups in a target were looked at, by its name; under running.
	pruned map[string]time.Time
}

// inventoryTimeout limits each question that the cleanup asks a worker.
const inventoryTimeout = time.Minute

// New makes a cleaner.
func New(cfg Config, store Store, hosts Inventories) *Cleaner {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&cfg.Grace, 10*time.Minute)
	def(&cfg.Deliveries, 7*24*time.Hour)
	def(&cfg.Access, 7*24*time.Hour)
	def(&cfg.Output, 30*24*time.Hour)
	def(&cfg.Audit, 365*24*time.Hour)
	def(&cfg.RemovedBackups, 365*24*time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Cleaner{cfg: cfg, store: store, hosts: hosts, pruned: map[string]time.Time{}}
}

// Run cleans up once. A node whose inventory is incomplete or looks wrong is skipped with
// everything on it, and the report says why; if no node is left, Run does nothing. An error is a
// failure of the store, after which a part may have been done.
func (c *Cleaner) Run(ctx context.Context, opt Options) (Report, error) {
	c.running.Lock()
	defer c.running.Unlock()
	now, report := c.cfg.Now().UTC(), Report{Items: []Item{}, Skipped: []string{}}
	inventory, err := c.takeInventory(ctx, now, opt.Force)
	if err != nil {
		return report, err
	}
	if len(inventory.nodes) == 0 {
		report.Refused = strings.Join(inventory.skipped, "; ")
		return report, nil
	}
	report.Skipped = append(report.Skipped, inventory.skipped...)
	for _, node := range inventory.nodes {
		if opt.DryRun {
			break
		}
		if err := c.store.NotePresence(ctx, node, inventory.present, now); err != nil {
			return report, fmt.Errorf("note presence: %w", err)
		}
	}
	if !opt.DryRun {
		if err := c.store.NoteStrays(ctx, inventory.nodes, inventory.strays); err != nil {
			return report, fmt.Errorf("note strays: %w", err)
		}
	}
	todo, err := c.plan(ctx, now, inventory)
	if err != nil {
		return report, err
	}
	superfluous, skipped, err := c.prunings(ctx, now, opt.DryRun)
	if err != nil {
		return report, err
	}
	todo, report.Skipped = append(todo, superfluous...), append(report.Skipped, skipped...)
	for _, job := range todo {
		done := true
		if !opt.DryRun {
			if done, err = job.apply(ctx); err != nil {
				return report, fmt.Errorf("%s %s: %w", job.Action, job.Subject, err)
			}
		}
		if done {
			report.Items = append(report.Items, job.Item)
		}
	}
	if opt.DryRun || len(report.Items) == 0 {
		return report, nil
	}
	taken := map[string]int{}
	for _, i := range report.Items {
		taken[i.Task]++
	}
	if err := c.store.CleanupFinished(ctx, taken); err != nil {
		return report, fmt.Errorf("tell of the cleanup: %w", err)
	}
	return report, nil
}
