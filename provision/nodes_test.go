package provision

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

const (
	otherNode = "node2"
	// long is how long a node must have been away before others act for it.
	long = 2 * seedbed.NodeSilence
)

// onTwo makes a lab of two nodes, which share their pool or have separate ones.
func onTwo(t *testing.T, shared bool) (*lab, *nodes) {
	t.Helper()
	l := newLab(t)
	f := l.withOther(shared)
	l.withProfile(seedbed.ReadyStarted)
	if !shared {
		l.importOn("debian2", otherNode, "", seedbed.JobSucceeded)
	}
	return l, f
}

// withOther adds another node to a lab, which shares the pool or has one of its own.
func (l *lab) withOther(shared bool) *nodes {
	l.t.Helper()
	return l.withNodes(shared, otherNode)
}

// withNodes is withOther for several nodes.
func (l *lab) withNodes(shared bool, names ...string) *nodes {
	t := l.t
	t.Helper()
	f := newNodes(l.host, shared, names...)
	l.fleet = f
	for _, n := range f.list {
		_, err := l.db.AddNode(t.Context(), seedbed.Node{Name: n.Name, Worker: "https://" + n.Name + ".example:7375"})
		l.ok(err)
		l.ok(l.db.NoteNode(t.Context(), n.Name, n.Report, "", time.Now()))
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { // the guest planes there
		for {
			hint := l.db.Hint()
			for _, name := range names {
				if page, err := l.db.FeedPage(t.Context(), name, 0, ""); err == nil && page.Revision > 0 {
					l.db.SetApplied(t.Context(), name, page.Revision, time.Now())
				}
			}
			select {
			case <-stop:
				return
			case <-hint:
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { close(stop); group.Wait() })
	return f
}

// importing starts the import of an image on a node, and importOn completes it.
func (l *lab) importing(name, node, sum string) seedbed.JobID {
	l.t.Helper()
	receipt, err := l.intake.Import(l.t.Context(), name, "default", seedbed.ImportSpec{Path: l.imageFile(), SHA256: sum, Node: node}, usual)
	l.ok(err)
	return receipt.Job
}

func (l *lab) importOn(name, node, sum string, want seedbed.JobState) seedbed.Job {
	l.t.Helper()
	return l.runUntil(l.importing(name, node, sum), want)
}

// createOn requests an instance on a node, of an image that it has.
func (l *lab) createOn(name, node string) seedbed.JobID {
	l.t.Helper()
	req := seedbed.Request{Action: "create", Name: name, Profile: "small", Node: node}
	if f := l.fleet.(*nodes); node == otherNode && f.hosts[otherNode].pool != l.pool {
		p, err := l.db.Profile(l.t.Context(), "small")
		l.ok(err)
		p.Name, p.Image = "small2", "debian2"
		_, err = l.db.CreateProfile(l.t.Context(), p)
		if !errors.Is(err, seedbed.ErrExists) {
			l.ok(err)
		}
		req.Profile = p.Name
	}
	receipt, err := l.intake.Submit(l.t.Context(), req, nil)
	l.ok(err)
	return receipt.Job
}

// runsOn makes an instance that runs on a node.
func (l *lab) runsOn(name, node string) seedbed.Instance {
	l.t.Helper()
	l.runUntil(l.createOn(name, node), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault(name))
	l.ok(err)
	return inst
}

// has returns what each node has of an instance.
func (f *nodes) has(t *testing.T, id seedbed.InstanceID) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, h := range f.hosts {
		var what []string
		if d, err := h.hv.DomainState(t.Context(), id); err == nil {
			what = append(what, "domain "+string(d.State))
		}
		volumes, err := h.pool.Volumes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range volumes {
			if v.Instance == id {
				what = append(what, "volume")
			}
		}
		if what != nil {
			all[name] = strings.Join(what, ", ")
		}
	}
	return all
}

func TestInstanceOnItsNode(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"a pool each": false, "one pool": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, f := onTwo(t, shared)
			one, two := l.runsOn("one", testNode), l.runsOn("two", otherNode)
			want := map[seedbed.InstanceID]map[string]string{
				one.ID: {testNode: "domain running, volume"}, two.ID: {otherNode: "domain running, volume"},
			}
			if shared { // as each node sees it
				want[one.ID][otherNode], want[two.ID][testNode] = "volume", "volume"
			}
			for id, has := range want {
				if d := cmp.Diff(has, f.has(t, id)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			}
			l.runUntil(l.remove("two"), seedbed.JobSucceeded)
			if d := cmp.Diff(map[string]string{}, f.has(t, two.ID)); d != "" {
				t.Errorf("removed (-want +got):\n%s", d)
			}
			if d := cmp.Diff(want[one.ID], f.has(t, one.ID)); d != "" {
				t.Errorf("the other's (-want +got):\n%s", d)
			}
		})
	}
}

// TestFollowNodes checks that an instance follows the domain on its own node, and that a node that
// is new or comes back is followed.
func TestFollowNodes(t *testing.T) {
	t.Parallel()
	l, f := onTwo(t, false)
	inst := l.runsOn("two", otherNode)
	there, here := f.hosts[otherNode], f.hosts[testNode]
	becomes := func(want seedbed.InstanceState) {
		t.Helper()
		l.eventually("instance "+string(want), func() bool {
			now, err := l.db.Instance(t.Context(), inst.ID)
			l.ok(err)
			return now.State == want
		})
	}
	l.start()
	there.hv.SetState(inst.ID, seedbed.DomainOff, "shutdown")
	becomes(seedbed.InstanceStopped)
	there.hv.SetState(inst.ID, seedbed.DomainRunning, "started")
	becomes(seedbed.InstanceRunning)

	// A domain with its ID that was left on another node says nothing.
	l.ok(here.hv.DefineDomain(t.Context(), seedbed.DomainSpec{ID: inst.ID, Name: "two"}))
	l.eventually("several inventories there", func() bool { return here.inventories.Load() > 3 })
	now, err := l.db.Instance(t.Context(), inst.ID)
	l.ok(err)
	if now.State != seedbed.InstanceRunning {
		t.Errorf("it is %s as a domain on another node is", now.State)
	}

	f.setAway(otherNode, true, 0)
	there.hv.SetState(inst.ID, seedbed.DomainOff, "shutdown")
	f.setAway(otherNode, false, 0)
	becomes(seedbed.InstanceStopped)
	f.drop(otherNode)
	l.eventually("not followed", func() bool { return there.watchers.Load() == 0 })
}

// TestNodeAway checks that what must be done on a node waits for it, as long as its stage or its
// undo may take (reference case 56).
func TestNodeAway(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	short := func(c *engine.Config, p *engine.Intervals) {
		c.StageTimeout = map[string]time.Duration{"define": limit}
		p.Undo = limit
	}
	// away makes the node disappear once the volumes exist.
	away := func(f *nodes, p *process, then func()) {
		p.store.fail(func(write, stage string, at drivertest.Point) error {
			if write == "step" && stage == "volumes" && at == drivertest.After {
				f.setAway(otherNode, true, long)
				then()
			}
			return nil
		})
	}
	t.Run("for a moment", func(t *testing.T) {
		t.Parallel()
		l, f := onTwo(t, false)
		id := l.createOn("two", otherNode)
		l.start(func(p *process) { away(f, p, func() {}) })
		l.eventually("it is tried again", func() bool { return strings.Contains(l.history(id), "node2 does not answer; trying again") })
		f.setAway(otherNode, false, 0)
		l.wait(id, seedbed.JobSucceeded)
	})
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		l, f := onTwo(t, true) // a shared pool makes no difference: a domain may run on its volumes
		l.tune = short
		id := l.createOn("two", otherNode)
		inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("two"))
		l.ok(err)
		p := l.start(func(p *process) { away(f, p, func() {}) })
		job := l.wait(id, seedbed.JobIncomplete)
		p.stop()
		if h := l.history(id); !strings.Contains(job.Error, "node2 does not answer") ||
			!strings.Contains(h, "left behind: define: ") || !strings.Contains(h, "; volumes: ") {
			t.Errorf("it ended with: %s\n%s", job.Error, h)
		}
		if len(f.hosts[testNode].superseded) != 0 {
			t.Error("another node was to do what is the node's own")
		}
		f.setAway(otherNode, false, 0)
		l.runUntil(l.remove("two"), seedbed.JobSucceeded)
		if d := cmp.Diff(map[string]string{}, f.has(t, inst.ID)); d != "" {
			t.Errorf("removed once it is back (-want +got):\n%s", d)
		}
	})
	t.Run("until it is undone", func(t *testing.T) {
		t.Parallel()
		l, f := onTwo(t, false)
		l.tune = func(c *engine.Config, p *engine.Intervals) { short(c, p); p.Undo = 20 * time.Second }
		id := l.createOn("two", otherNode)
		inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("two"))
		l.ok(err)
		l.start(func(p *process) { away(f, p, func() {}) })
		l.wait(id, seedbed.JobUndoing)
		f.setAway(otherNode, false, 0)
		l.wait(id, seedbed.JobRolledBack)
		if d := cmp.Diff(map[string]string{}, f.has(t, inst.ID)); d != "" {
			t.Errorf("rolled back (-want +got):\n%s", d)
		}
	})
}

// TestPoolElsewhere checks that another node that shares a pool does what concerns only the pool,
// after the job's own node has been away for long enough.
func TestPoolElsewhere(t *testing.T) {
	t.Parallel()
	_, sum := drivertest.BootableFile(t)
	impatient := func(c *engine.Config, p *engine.Intervals) {
		c.StageTimeout = map[string]time.Duration{"import": time.Second}
		p.Undo = time.Second
	}
	for _, tt := range []struct {
		name   string
		shared bool
		since  time.Duration
		sum    string
		want   seedbed.JobState
		says   string
	}{
		{"shared, away for long", true, long, sum, seedbed.JobSucceeded, "node node2 is away: node node1 does this in its place"},
		{"shared, away just now", true, time.Second, sum, seedbed.JobIncomplete, "node2 does not answer"},
		{"shared, away for long, perhaps another file there", true, long, "", seedbed.JobRolledBack, "node2 does not answer"},
		{"a pool each", false, long, sum, seedbed.JobIncomplete, "node2 does not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, f := onTwo(t, tt.shared)
			l.tune = impatient
			f.setAway(otherNode, true, tt.since)
			job := l.importOn("moved", otherNode, tt.sum, tt.want)
			if !strings.Contains(l.history(job.ID)+job.Error, tt.says) {
				t.Errorf("it ended with %q:\n%s", job.Error, l.history(job.ID))
			}
		})
	}
	t.Run("a file that is not there", func(t *testing.T) {
		t.Parallel()
		l, f := onTwo(t, true)
		l.tune = impatient
		path := l.imageFile()
		l.ok(os.Remove(path))
		receipt, err := l.intake.Import(t.Context(), "moved", "default", seedbed.ImportSpec{Path: path, SHA256: sum, Node: otherNode}, usual)
		l.ok(err)
		f.setAway(otherNode, true, long)
		job := l.runUntil(receipt.Job, seedbed.JobRolledBack)
		if !strings.Contains(job.Error, "node node2 is away, and on node node1: ") {
			t.Errorf("it ended with %q", job.Error)
		}
	})
	t.Run("removal", func(t *testing.T) {
		t.Parallel()
		l, f := onTwo(t, true)
		l.importOn("moved", otherNode, sum, seedbed.JobSucceeded)
		f.setAway(otherNode, true, long)
		receipt, err := l.intake.RemoveImage(t.Context(), "moved", usual)
		l.ok(err)
		l.runUntil(receipt.Job, seedbed.JobSucceeded)
		images, err := l.pool.Images(t.Context())
		l.ok(err)
		if len(images) != 1 {
			t.Errorf("images %+v", images)
		}
	})
}

// TestSupersede checks that before a worker continues a job that another may work on, all others
// that share the pool are told, and refuse its earlier epochs from then on.
func TestSupersede(t *testing.T) {
	t.Parallel()
	_, sum := drivertest.BootableFile(t)
	ctx := t.Context()
	l, f := onTwo(t, true)
	here, there := f.hosts[testNode], f.hosts[otherNode]
	id := l.importing("moved", otherNode, sum)
	p := l.start(func(p *process) {
		p.store.fail(func(write, stage string, at drivertest.Point) error {
			if write == "step" && stage == "import" && at == drivertest.Before {
				p.kill()
			}
			return nil
		})
	})
	l.eventually("killed", p.store.dead.Load)
	p.stop()
	if n := len(here.superseded) + len(there.superseded); n != 0 {
		t.Fatalf("%d were told at the first attempt", n)
	}
	before, err := l.db.Job(ctx, id)
	l.ok(err)
	l.ok(l.db.Release(ctx, before.Ref()))
	f.setAway(otherNode, true, long)
	l.runUntil(id, seedbed.JobSucceeded)
	f.setAway(otherNode, false, 0)

	// The moved job, as its former holder still knows it.
	late := seedbed.Call{Job: id, Epoch: before.Epoch, Stage: "import"}
	_, err = here.ImportImage(ctx, late, seedbed.ImageSpec{Name: "moved"}, nil)
	l.want("the worker that went on", err, seedbed.ErrStale)

	receipt, err := l.intake.RemoveImage(ctx, "moved", usual)
	l.ok(err)
	gone := receipt.Job
	killed := l.start(func(p *process) {
		p.store.fail(func(write, stage string, at drivertest.Point) error {
			if write == "step" && stage == "delete-image" && at == drivertest.Before {
				p.kill()
			}
			return nil
		})
	})
	l.eventually("killed", killed.store.dead.Load)
	killed.stop()
	job, err := l.db.Job(ctx, gone)
	l.ok(err)
	l.ok(l.db.Release(ctx, job.Ref()))
	l.runUntil(gone, seedbed.JobSucceeded)
	told := append(here.superseded, there.superseded...)
	if len(told) != 1 || told[0].Job != gone || told[0].Epoch <= job.Epoch {
		t.Fatalf("told %+v of job %s after epoch %d", told, gone, job.Epoch)
	}
	for _, h := range f.hosts {
		err := h.RemoveImage(ctx, seedbed.Call{Job: gone, Epoch: job.Epoch}, "default", "moved", "")
		l.want("a worker, by who had the job before", err, seedbed.ErrStale)
	}
}
