//go:build integration

package store

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/feedtest"
)

// Two processes work at full speed on instances of one network, one node and one user-data
// document. No write fails because of a conflict, and the result is consistent.
func TestPostgresStress(t *testing.T) {
	s := postgresServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	name := s.Database(t, s.template)
	dbs := []*DB{s.use(t, name), s.use(t, name)}
	one := dbs[0]
	do(one.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")}))(t)
	gen := do(one.FeedPage(ctx, "node", 0, ""))(t).Generation

	// A follower never misses a revision, whichever process writes.
	stop := make(chan struct{})
	var following sync.WaitGroup
	followed := map[seedbed.InstanceID]bool{}
	var since int64
	follow := func() {
		page, err := dbs[1].FeedPage(ctx, "node", since, gen)
		if err != nil {
			t.Error(err)
			return
		}
		for _, c := range feedtest.Changes(t, page) {
			followed[c.Instance] = c.Guest != nil
		}
		since = page.Revision
	}
	following.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				follow()
			}
		}
	})

	const workers, rounds = 16, 6
	var all sync.WaitGroup
	for w := range workers {
		db := dbs[w%2]
		all.Go(func() {
			for n := range rounds {
				if err := life(ctx, db, fmt.Sprintf("web%d-%d", w, n), n%3); err != nil {
					t.Errorf("worker %d: %v", w, err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	following.Wait()
	follow()

	instances := do(one.Instances(ctx))(t)
	if want := workers * rounds / 3; len(instances) != want {
		t.Errorf("%d instances, want %d", len(instances), want)
	}
	served := 0
	for id, there := range followed {
		if there {
			served++
			do(one.Instance(ctx, id))(t)
		}
	}
	if served != len(instances) {
		t.Errorf("the follower serves %d of %d", served, len(instances))
	}
	for what, query := range map[string]string{
		"NICs of nobody":     `SELECT COUNT(*) FROM nic WHERE instance NOT IN (SELECT id FROM instance)`,
		"volumes of nobody":  `SELECT COUNT(*) FROM volume WHERE instance NOT IN (SELECT id FROM instance)`,
		"NICs on no network": `SELECT COUNT(*) FROM nic WHERE network NOT IN (SELECT name FROM network)`,
		"events and deliveries of no job": `SELECT COUNT(*) FROM (SELECT job FROM job_event UNION ALL SELECT job FROM delivery) AS part
			WHERE job NOT IN (SELECT id FROM job)`,
		"blobs in use and marked unused": `SELECT COUNT(*) FROM blob
			WHERE unused_since IS NOT NULL AND sha256 IN (SELECT blob FROM feed WHERE blob IS NOT NULL)`,
		"leases without a NIC": `SELECT COUNT(*) FROM lease WHERE mac NOT IN (SELECT mac FROM nic)`,
		"revisions that are not the node's": `SELECT COUNT(*) FROM feed_node n
			WHERE n.revision <> (SELECT MAX(f.revision) FROM feed f WHERE f.node = n.node)`,
		"jobs whose events have gaps": `SELECT COUNT(*) FROM job j WHERE j.events <> (SELECT COUNT(*) FROM job_event e WHERE e.job = j.id)`,
		"jobs that did not end":       `SELECT COUNT(*) FROM job WHERE ended IS NULL`,
	} {
		var n int
		if err := one.sql.Read.QueryRowContext(ctx, query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d (%v)", what, n, err)
		}
	}
}

// life creates an instance. how decides whether it stays (0), is undone (1) or is removed (2).
func life(ctx context.Context, db *DB, name string, how int) error {
	id, create := seedbed.NewInstanceID(), seedbed.NewJobID()
	_, err := db.Accept(ctx, seedbed.Acceptance{
		Job:      seedbed.Job{ID: create, Kind: seedbed.JobCreate},
		Delivery: &seedbed.Delivery{Hook: "ci", ID: name},
		Instance: &seedbed.Instance{ID: id, Name: name, Node: "node", VCPUs: 1, Memory: seedbed.GiB,
			NICs: []seedbed.NIC{{MAC: seedbed.NewMAC(), Network: "default"}}},
	})
	if err != nil {
		return err
	}
	if err := work(ctx, db); err != nil || how != 2 {
		return err
	}
	for { // another worker may have claimed the create job, which the removal would cancel
		if j, err := db.Job(ctx, create); err != nil {
			return err
		} else if j.State.Terminal() {
			break
		}
	}
	_, err = db.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRemove, Instance: id}})
	if err != nil {
		return err
	}
	return work(ctx, db)
}

// work runs one job, whichever it is.
func work(ctx context.Context, db *DB) error {
	var j *seedbed.Job
	for j == nil {
		var err error
		if j, err = db.ClaimJob(ctx, "worker", time.Hour); err != nil {
			return err
		}
	}
	ref := j.Ref()
	if j.Kind == seedbed.JobRemove {
		if err := db.Step(ctx, ref, seedbed.Step{Next: "retract", Total: 1}); err != nil {
			return err
		}
		if _, err := db.Retract(ctx, ref, "node", j.Instance); err != nil {
			return err
		}
		return db.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
	}
	i, err := db.Instance(ctx, j.Instance)
	if err != nil {
		return err
	}
	if err := db.Step(ctx, ref, seedbed.Step{Next: "publish", Total: 2}); err != nil {
		return err
	}
	if _, err := db.Publish(ctx, ref, "node",
		seedbed.Guest{ID: i.ID, Name: i.Name}, seedbed.Documents{UserData: []byte("#cloud-config of all\n")}); err != nil {
		return err
	}
	err = db.AddGuestEvents(ctx, "node", "spool", []seedbed.GuestEvent{
		{Seq: time.Now().UnixNano(), Instance: i.ID, Kind: seedbed.GuestLease, MAC: i.NICs[0].MAC,
			Addr: i.NICs[0].Addr, Until: time.Now().Add(time.Hour)}})
	if err != nil {
		return err
	}
	if i.Name[len(i.Name)-1]%3 == 1 { // to be undone
		if err := db.Undo(ctx, ref, "no room"); err != nil {
			return err
		}
		return db.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true})
	}
	if err := db.Step(ctx, ref, seedbed.Step{Done: "publish", InstanceState: seedbed.InstanceRunning}); err != nil {
		return err
	}
	return db.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
}
