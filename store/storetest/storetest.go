// Package storetest is the contract suite of package store. Every database that Seedbed can use
// passes it.
package storetest

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"seedbed"
)

// Store is the whole method set of the store, composed of the roles that its consumers declare.
type Store interface {
	Catalogue
	Intake
	Reader
	Engine
	Feed
	Guests
	Cleanup
	Orphans
	Volumes
	Rebuilds
	Outbox
	Access
	Listing
	Catalogues
	Native
	Templates
	Provisioner
	OVAs
	ScriptRuns
	Hooks
	Nodes
	Hint() <-chan struct{}
}

// Catalogue stores what instances are made from, and the hooks that may request them.
type Catalogue interface {
	CreateProfile(context.Context, seedbed.Profile) (seedbed.Profile, error)
	Profile(ctx context.Context, name string) (seedbed.Profile, error)
	Profiles(context.Context) ([]seedbed.Profile, error)
	DeleteProfile(ctx context.Context, name string, checks ...func(seedbed.Profile) error) error
	Image(ctx context.Context, name string) (seedbed.Image, error)
	Images(context.Context) ([]seedbed.Image, error)
	CreateHook(context.Context, seedbed.Hook) (seedbed.Hook, error)
	Hook(ctx context.Context, name string) (seedbed.Hook, error)
	Hooks(context.Context) ([]seedbed.Hook, error)
	DeleteHook(ctx context.Context, name string, checks ...func(seedbed.Hook) error) error
	CreateNetwork(context.Context, seedbed.Network) (seedbed.Network, error)
	Network(ctx context.Context, name string) (seedbed.Network, error)
	Networks(context.Context) ([]seedbed.Network, error)
	ChangeNetwork(ctx context.Context, name string, change func(*seedbed.Network) error) (seedbed.Network, error)
	SetSite(context.Context, seedbed.Site) error
	Site(context.Context) (seedbed.Site, error)
	SettingOnce(ctx context.Context, key string, fresh func() []byte) ([]byte, error)
}

// Intake accepts requests.
type Intake interface {
	Accept(context.Context, seedbed.Acceptance) (seedbed.Receipt, error)
	CancelJob(context.Context, seedbed.JobID) error
	ResumeJob(context.Context, seedbed.JobID) (seedbed.Job, error)
	Deliveries(ctx context.Context, limit int) ([]seedbed.Delivery, error)
	Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error)
}

// Reader reads instances and jobs.
type Reader interface {
	Instance(context.Context, seedbed.InstanceID) (seedbed.Instance, error)
	InstanceByName(ctx context.Context, name string) (seedbed.Instance, error)
	Instances(context.Context) ([]seedbed.Instance, error)
	Job(context.Context, seedbed.JobID) (seedbed.Job, error)
	JobByPrefix(ctx context.Context, prefix string) (seedbed.Job, error)
	Jobs(ctx context.Context, limit int) ([]seedbed.Job, error)
	Stages(context.Context, seedbed.JobID) ([]seedbed.Stage, error)
	Events(ctx context.Context, id seedbed.JobID, after int64, limit int) ([]seedbed.Event, error)
	JobOutput(ctx context.Context, id seedbed.JobID, stage string, after int64, limit int) ([]seedbed.JobOutput, error)
}

// Engine is the set of writes of a job's owner.
type Engine interface {
	ClaimJob(ctx context.Context, owner string, lease time.Duration) (*seedbed.Job, error)
	ClaimNext(context.Context, seedbed.ClaimOptions) (*seedbed.Job, error)
	Postpone(ctx context.Context, ref seedbed.JobRef, wait time.Duration, spent bool) error
	LogOutput(ctx context.Context, ref seedbed.JobRef, stage string, lines []seedbed.OutputLine) error
	RenewLease(ctx context.Context, ref seedbed.JobRef, lease time.Duration) (cancel bool, err error)
	Step(context.Context, seedbed.JobRef, seedbed.Step) error
	Publish(ctx context.Context, ref seedbed.JobRef, node string, g seedbed.Guest, docs seedbed.Documents) (int64, error)
	Refresh(ctx context.Context, node string, id seedbed.InstanceID, render func(seedbed.Instance, seedbed.Guest) seedbed.Guest) (int64, error)
	Served(context.Context) (map[string][]seedbed.InstanceID, error)
	Retract(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (int64, error)
	LogEvent(context.Context, seedbed.JobRef, seedbed.Event) error
	Undo(ctx context.Context, ref seedbed.JobRef, cause string) error
	Undone(ctx context.Context, ref seedbed.JobRef, stage, problem string, left ...seedbed.Orphan) error
	Finish(context.Context, seedbed.JobRef, seedbed.JobResult) error
	Release(context.Context, seedbed.JobRef) error
	SetInstanceState(ctx context.Context, id seedbed.InstanceID, from, to seedbed.InstanceState) (bool, error)
}

// Feed is what the guest plane follows.
type Feed interface {
	FeedPage(ctx context.Context, node string, since int64, generation string) (seedbed.FeedPage, error)
	Blob(ctx context.Context, sha256 string) ([]byte, error)
	NodeBlob(ctx context.Context, node, sha256 string) ([]byte, error)
	NodeGuests(ctx context.Context, node string, ids []seedbed.InstanceID) ([]seedbed.InstanceID, error)
	SetApplied(ctx context.Context, node string, revision int64, at time.Time) error
	Applied(ctx context.Context, node string) (int64, time.Time, error)
}

// Guests stores what guests did.
type Guests interface {
	AddGuestEvents(ctx context.Context, node, spool string, events []seedbed.GuestEvent) error
	GuestEvents(ctx context.Context, id seedbed.InstanceID, limit int) ([]seedbed.GuestEvent, error)
	ChangeInstance(
		ctx context.Context, name string, change func(*seedbed.Instance) error, render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
	) (seedbed.Instance, error)
	Maintenance(ctx context.Context, node string, id seedbed.InstanceID) ([]seedbed.Maintenance, error)
	AddMaintenance(ctx context.Context, node string, id seedbed.InstanceID, m seedbed.Maintenance) (seedbed.Maintenance, error)
	EndMaintenance(ctx context.Context, event, state string) (seedbed.Maintenance, error)
	Leases(context.Context) ([]seedbed.Lease, error)
}

// Cleanup is what the periodic tasks use.
type Cleanup interface {
	CronSlot(ctx context.Context, task string, slot time.Time) (bool, error)
	NotePresence(ctx context.Context, node string, present []seedbed.InstanceID, at time.Time) error
	StaleMappings(ctx context.Context, cutoff time.Time) ([]seedbed.Instance, error)
	DropMapping(ctx context.Context, id seedbed.InstanceID, cutoff time.Time) (bool, error)
	ExpiredLeases(ctx context.Context, now time.Time) ([]seedbed.Lease, error)
	DropLeases(ctx context.Context, now time.Time) (int, error)
	CountDeliveries(ctx context.Context, before time.Time) (int, error)
	DropDeliveries(ctx context.Context, before time.Time) (int, error)
	CountGuestEvents(ctx context.Context, before time.Time) (int, error)
	DropGuestEvents(ctx context.Context, before time.Time) (int, error)
	CountOutput(ctx context.Context, before time.Time) (int, error)
	DropOutput(ctx context.Context, before time.Time) (int, error)
}

// Access stores the tokens of the API, and the log of changes.
type Access interface {
	CreateToken(ctx context.Context, t seedbed.Token, sum [sha256.Size]byte) (seedbed.Token, error)
	TokenOf(ctx context.Context, sum [sha256.Size]byte) (seedbed.Token, error)
	Tokens(context.Context) ([]seedbed.Token, error)
	DeleteToken(ctx context.Context, name string) error
	Audit(ctx context.Context, before int64, limit int) ([]seedbed.AuditEntry, error)
	CountAudit(ctx context.Context, before time.Time) (int, error)
	DropAudit(ctx context.Context, before time.Time) (int, error)
}

// Run runs the contract suite. Each call of open returns a separate, empty store, which is closed
// when its test ends.
func Run(t *testing.T, open func(t *testing.T) Store) {
	groups := []struct {
		name  string
		cases map[string]func(*bench)
	}{
		{"catalogue", catalogueCases},
		{"accept", acceptCases},
		{"race", raceCases},
		{"job", jobCases},
		{"lease", leaseCases},
		{"journal", journalCases},
		{"step", stepCases},
		{"queue", queueCases},
		{"output", outputCases},
		{"finish", finishCases},
		{"feed", feedCases},
		{"served", servedCases},
		{"guest", guestCases},
		{"cleanup", cleanupCases},
		{"orphan", orphanCases},
		{"hook", hookCases},
		{"volume", volumeCases},
		{"rebuild", rebuildCases},
		{"resize", resizeCases},
		{"token quota", tokenQuotaCases},
		{"removal", removalCases},
		{"outbox", outboxCases},
		{"access", accessCases},
		{"template", templateCases},
		{"change", changeCases},
		{"script", scriptCases},
		{"provisioner", provisionerCases},
		{"ova", ovaCases},
		{"listing", listingCases},
		{"takeover", catalogueTakeoverCases},
		{"native", nativeCases},
		{"node", nodeCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			runCases(t, g.cases, open)
		})
	}
}

// Races runs the part of the contract suite about concurrent requests, for stores that are several
// programs on one database.
func Races(t *testing.T, open func(t *testing.T) Store) { runCases(t, raceCases, open) }

func runCases(t *testing.T, cases map[string]func(*bench), open func(t *testing.T) Store) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&bench{T: t, Store: open(t)})
		})
	}
}
