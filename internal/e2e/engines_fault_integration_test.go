//go:build integration && libvirt

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/lab"
)

// monitorStops: Ceph's only monitor goes while clones are being made, and comes
// back: every job succeeds, with one of everything.
func (e *engines) monitorStops(t *testing.T) {
	e.ceph.Freeze(t) // so that no clone is over when the monitor goes
	thawed := false
	defer func() {
		if !thawed {
			e.ceph.Thaw(t)
		}
	}()
	jobs := map[string]string{}
	var names []string
	for i := range 3 {
		name := fmt.Sprint("mon", i)
		jobs[name] = e.create(t, name, "small").Job
		names = append(names, name)
	}
	for _, id := range jobs {
		awaitStage(t, e.Stack, id, "volumes")
	}
	e.ceph.StopMon(t)
	for name, id := range jobs {
		if page, err := e.API.JobEvents(t.Context(), id, 0, 0); err != nil || page.Job.Stage != "volumes" {
			t.Fatalf("%s is at %q when the monitor has gone, not at the clone: %v", name, page.Job.Stage, err)
		}
	}
	e.ceph.Thaw(t)
	thawed = true
	e.ill(t, "pool", "start the monitors")
	e.ceph.StartMon(t)
	e.up(t, jobs)
	e.well(t)
	e.remove(t, names...)
}

// controlFreezes: a control host stands still for longer than the leases of its
// jobs, which are at a clone, and goes on when the other has them.
func (e *engines) controlFreezes(t *testing.T) {
	second, err := client.New(client.Options{Socket: filepath.Join(e.Dir, "second/run/control.sock")})
	if err != nil {
		t.Fatal(err)
	}
	e.ceph.Freeze(t) // so that no clone is over before
	thaw := sync.OnceFunc(func() { e.ceph.Thaw(t) })
	defer thaw()
	e.Signal(lab.Seedbedd, syscall.SIGSTOP) // so that the second takes them
	jobs := map[string]string{}
	for _, name := range []string{"cp0", "cp1"} {
		receipt, err := second.CreateInstance(t.Context(), seedbed.Request{Name: name, Profile: "small"})
		if err != nil {
			t.Fatal(err)
		}
		jobs[name] = string(receipt.Job)
	}
	held, taken := map[string]int64{}, map[string]int64{} // the epochs of the second and of the first
	lab.Await(t, lab.Patience, "the second control host is at the clones", func() bool {
		list, err := second.Jobs(t.Context(), 2)
		for _, j := range list {
			held[j.Subject] = j.Epoch
		}
		return err == nil && !slices.ContainsFunc(list, func(j seedbed.Job) bool { return j.Stage != "volumes" })
	})
	e.second.Cmd.Process.Signal(syscall.SIGSTOP)
	resume := sync.OnceFunc(func() { e.second.Cmd.Process.Signal(syscall.SIGCONT) })
	defer resume()
	e.Signal(lab.Seedbedd, syscall.SIGCONT)
	for name, id := range jobs {
		lab.Await(t, lab.Patience, "the first control host has the job of "+name, func() bool {
			j, err := e.API.Job(t.Context(), id)
			taken[name] = j.Job.Epoch
			return err == nil && j.Job.Epoch > held[name] && j.Job.Stage == "volumes"
		})
	}
	resume() // with its calls still under way
	thaw()
	e.up(t, jobs)
	for name, id := range jobs {
		if j, err := e.API.Job(t.Context(), id); err != nil || j.Job.Epoch != taken[name] {
			t.Errorf("%s was taken again: epoch %d, and %d before, %v", name, j.Job.Epoch, taken[name], err)
		}
	}
	e.well(t)
	e.remove(t, "cp0", "cp1")
}

// postgresStops: PostgreSQL crashes, and is away when a webhook comes: its
// sender is told so, and sends it again. Another job is under way at a second crash.
func (e *engines) postgresStops(t *testing.T) {
	e.pg.Stop("immediate")
	const body = `{"action":"create","name":"pg0","profile":"small"}`
	if a := e.forge.post(t, "evt_pg0", time.Now(), body); a.Status != 503 || a.Job != "" {
		t.Errorf("a webhook without a database: %+v, want 503", a)
	}
	e.ill(t, "database", "see that the database runs")
	e.pg.Start(t)
	jobs := map[string]string{}
	lab.Await(t, lab.Patience, "the webhook is taken", func() bool {
		a := e.forge.post(t, "evt_pg0", time.Now(), body)
		jobs["pg0"] = a.Job
		return a.Status == 202
	})
	jobs["pg1"] = e.create(t, "pg1", "small").Job
	e.pg.Restart(t, "immediate")
	e.up(t, jobs)
	e.well(t)
	e.remove(t, "pg0", "pg1")
}

// slot is a line of a log that says that a slot of the schedule was run.
var slot = regexp.MustCompile(`msg=(?:cleanup|"cleanup (?:ran|refused)") task=mappings slot=(\S+)`)

// slots are the slots that the control hosts ran, and how often.
func (e *engines) slots() (ran map[string]int) {
	ran = map[string]int{}
	for _, m := range slot.FindAllStringSubmatch(e.Log(lab.Seedbedd)+e.second.Output(), -1) {
		ran[m[1]]++
	}
	return ran
}

// slotTime parses the time of a slot.
func slotTime(t *testing.T, at string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// zooKeeperStops: ZooKeeper is away for longer than the leader's session. Jobs
// and webhooks go on, the schedule waits, and no slot is ever run twice.
func (e *engines) zooKeeperStops(t *testing.T) {
	runs := func(more int) {
		t.Helper()
		want := len(e.slots()) + more
		lab.Await(t, lab.Patience, "slots are run", func() bool { return len(e.slots()) >= want })
	}
	runs(2)
	e.zoo.Stop()
	stopped := time.Now()
	lab.Await(t, lab.Patience, "the session is over", func() bool { return time.Since(stopped) > zooSession })
	e.ill(t, "coordination", "start ZooKeeper")
	jobs := map[string]string{"zk0": e.create(t, "zk0", "small").Job, "zk1": e.create(t, "zk1", "small").Job}
	e.up(t, jobs)
	lab.Await(t, lab.Patience, "slots have passed", func() bool { return time.Since(stopped) > 3*zooSession })
	for at := range e.slots() {
		if slotTime(t, at).After(stopped.Add(zooSession)) {
			t.Errorf("slot %s was run without ZooKeeper", at)
		}
	}
	back := time.Now()
	e.zoo.Start()
	e.zoo.AwaitServing()
	runs(4)
	var after int
	for at, times := range e.slots() {
		when := slotTime(t, at)
		if times != 1 {
			t.Errorf("slot %s was run %d times", at, times)
		}
		if when.After(back) {
			after++
		} else if when.After(stopped.Add(zooSession)) && when.Before(back.Add(-2*time.Second)) {
			t.Errorf("slot %s was made up for, and it is not the last", at)
		}
	}
	if after < 3 {
		t.Errorf("%d slots were run since ZooKeeper is back", after)
	}
	e.well(t)
	if vm, err := e.API.Instance(t.Context(), "zk0"); err != nil || vm.State != seedbed.InstanceRunning {
		t.Errorf("zk0: %s, %v", vm.State, err)
	}
	e.remove(t, "zk0", "zk1")
}
