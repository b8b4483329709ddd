package provision

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// served returns the record and the user-data of the only guest that is served.
func (l *lab) served() (seedbed.Guest, string) {
	l.t.Helper()
	page, err := l.db.FeedPage(l.t.Context(), testNode, 0, "")
	l.ok(err)
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest == nil {
			continue
		}
		if c.Guest.UserData == nil {
			return *c.Guest, ""
		}
		doc, err := l.db.Blob(l.t.Context(), c.Guest.UserData.SHA256)
		l.ok(err)
		return *c.Guest, string(doc)
	}
	l.t.Fatal("nobody is served")
	return seedbed.Guest{}, ""
}

// same returns the parts of an instance that a rebuild keeps.
func same(i seedbed.Instance) any {
	return []any{i.ID, i.Name, i.Node, i.State, i.NICs, i.Tags, i.Created}
}

// rebuilt checks that the instance has new disks and is otherwise unchanged.
func (l *lab) rebuilt(was seedbed.Instance) seedbed.Instance {
	l.t.Helper()
	l.up("web1")
	now, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if d := cmp.Diff(same(was), same(now), byValue); d != "" {
		l.t.Errorf("the instance (-before +after):\n%s", d)
	}
	if len(now.Volumes) != 1 || now.Volumes[0].Name == was.Volumes[0].Name {
		l.t.Errorf("volumes %+v", now.Volumes)
	}
	if now.ReportToken == was.ReportToken {
		l.t.Errorf("the report token %q is that of before", now.ReportToken)
	}
	if now.Ready == seedbed.ReadyReport && !now.Reported.After(was.Reported) {
		l.t.Errorf("the report is that of before: %s", now.Reported)
	}
	return now
}

// asBefore checks that the instance is what it was, disks included.
func (l *lab) asBefore(was seedbed.Instance) {
	l.t.Helper()
	l.whole("web1", was.State)
	now, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	was.Revision, was.Changed = now.Revision, now.Changed
	was.Fetched, was.Reported = now.Fetched, now.Reported // a guest may report at any moment
	if d := cmp.Diff(was, now, byValue); d != "" {
		l.t.Errorf("the instance (-before +after):\n%s", d)
	}
	g, doc := l.served()
	if g.Action != "" || g.ReportToken != was.ReportToken || doc != string(was.UserData) {
		l.t.Errorf("served: %+v with %q", g, doc)
	}
}

var byValue = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestRebuild(t *testing.T) {
	t.Parallel()
	for _, trash := range []time.Duration{0, time.Hour} {
		l := newLab(t).withProfile(seedbed.ReadyReport)
		l.pool.SetTrash(trash)
		was := l.made()
		id := l.ask(seedbed.DoRebuild, nil)
		_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoStop, Name: "web1"}, nil)
		l.want("stop meanwhile", err, seedbed.ErrInUse)
		job := l.runUntil(id, seedbed.JobSucceeded)
		now := l.rebuilt(was)
		if job.Done != 8 || strings.Contains(string(job.Spec), now.ReportToken) || strings.Contains(string(job.Spec), "runcmd") {
			t.Errorf("job %+v", job)
		}
		if g, doc := l.served(); g.ReportToken != now.ReportToken || !strings.Contains(doc, now.ReportToken) {
			t.Errorf("served %+v with %q", g, doc)
		}
		items, err := l.pool.Trash(t.Context())
		if kept := len(items) == 1 && items[0].Name == was.Volumes[0].Name; err != nil || kept != (trash > 0) {
			t.Errorf("trash %v, %v", items, err)
		}
		_, err = l.db.Rebuilding(t.Context(), id)
		l.want("what the job has to know", err, seedbed.ErrNotFound)
		l.runUntil(l.ask(seedbed.DoRebuild, map[string]any{"force": true}), seedbed.JobSucceeded)
		l.rebuilt(now)
	}
}

// TestRebuildOf checks what a rebuild keeps, and where it takes the rest from.
func TestRebuildOf(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: "create", Name: "web1", Profile: "small", Params: map[string]any{
		"vcpus": 3, "memory": "1GiB", "disk": "4GiB", "user_data": "#!/bin/sh\n", "tags": map[string]any{"a": "b"}}}, nil)), seedbed.JobSucceeded)
	was, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	l.runUntil(l.job(l.intake.Import(ctx, "other", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)), seedbed.JobSucceeded)
	_, err = l.db.CreateProfile(ctx,
		seedbed.Profile{Name: "big", Image: "other", VCPUs: 8, Memory: 8 * seedbed.GiB, Network: "default", Ready: seedbed.ReadyMetadata,
			UserData: []byte("## template: seedbed\n#cloud-config\n"), SSHKeys: []string{"ssh-ed25519 BBBB other"}})
	l.ok(err)
	plan, err := l.intake.Plan(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Profile: "big"})
	if err != nil || len(plan.Problems) > 0 || plan.Image != "other" || plan.VCPUs != 8 ||
		plan.Volumes[0].Name != "" || !reflect.DeepEqual(plan.NICs[0], was.NICs[0]) {
		t.Errorf("plan %+v, %v", plan, err)
	}

	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Image: "other"}, nil)),
		seedbed.JobSucceeded)
	now := l.rebuilt(was)
	if now.Image != "other" || now.Profile != "small" || now.VCPUs != 3 || now.Memory != seedbed.GiB || now.Volumes[0].Size != 4*seedbed.GiB ||
		!strings.Contains(string(now.UserData), "echo hi") || now.SSHKeys[0] != was.SSHKeys[0] {
		t.Errorf("of its own profile: %+v with %q", now, now.UserData)
	}
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{
		Action: seedbed.DoRebuild, Name: "web1", Profile: "big", Params: map[string]any{"vcpus": 2, "user_data": "#cloud-config\n"},
	}, nil)), seedbed.JobSucceeded)
	last := l.rebuilt(now)
	if last.Profile != "big" || last.VCPUs != 2 || last.Memory != 8*seedbed.GiB ||
		last.SSHKeys[0] != "ssh-ed25519 BBBB other" || last.Ready != seedbed.ReadyMetadata || last.Fetched.IsZero() {
		t.Errorf("of another profile: %+v", last)
	}
	if spec, _ := l.hv.Spec(last.ID); spec.VCPUs != 2 || spec.Memory != 8*seedbed.GiB || spec.Profile != "big" {
		t.Errorf("domain %+v", spec)
	}
	for name, req := range map[string]seedbed.Request{
		"no such image":   {Image: "none"},
		"bad image":       {Image: "../x"},
		"no such profile": {Profile: "none"},
		"small disk":      {Params: map[string]any{"disk": "512"}},
		"unknown param":   {Params: map[string]any{"evil": true}},
	} {
		req.Action, req.Name = seedbed.DoRebuild, "web1"
		_, err := l.intake.Submit(ctx, req, nil)
		l.want(name, err, seedbed.ErrInvalid)
		plan, err := l.intake.Plan(ctx, req)
		if err != nil || len(plan.Problems) == 0 {
			t.Errorf("plan with %s: %+v, %v", name, plan, err)
		}
	}
	_, err = l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web2"}, nil)
	l.want("absent instance", err, seedbed.ErrNotFound)
}

// TestRebuildOfWhatIsOff checks that an instance that is off is started, and is off again if the
// rebuild fails.
func TestRebuildOfWhatIsOff(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
	was, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	l.failEffect("StartDomain", drivertest.Before, seedbed.Errorf(seedbed.ErrFull, "boom"))
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobRolledBack)
	l.hv.Fail(nil)
	now, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if now.State != seedbed.InstanceStopped || now.Volumes[0] != was.Volumes[0] {
		t.Errorf("instance %+v", now)
	}
	l.domain(was.ID, seedbed.DomainOff)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	was.State = seedbed.InstanceRunning
	l.rebuilt(was)
}

// TestRebuildFails checks that a rebuild that fails before its last stage leaves the former disks
// and definition, and that the guest runs from them as before.
func TestRebuildFails(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"DestroyDomain", "CloneVolume", "UndefineDomain", "DefineDomain", "StartDomain"} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s", point, effect), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyReport)
				was := l.made()
				failed := false
				hook := func(_ context.Context, name string, at drivertest.Point) error {
					if name == effect && at == point && !failed {
						failed = true
						return seedbed.Errorf(seedbed.ErrFull, "boom")
					}
					return nil
				}
				l.pool.Fail(hook)
				l.hv.Fail(hook)
				l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobRolledBack)
				l.asBefore(was)
			})
		}
	}
	t.Run("never ready", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyReport)
		was := l.made()
		l.mute.Store(true)
		l.tune = func(c *engine.Config, _ *engine.Intervals) { c.StageTimeout["ready"] = 50 * time.Millisecond }
		l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobRolledBack)
		l.asBefore(was)
	})
}

// TestRebuildWithoutAWayBack checks that a former volume that was removed externally is not
// replaced by an empty one.
func TestRebuildWithoutAWayBack(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	was := l.made()
	l.hv.Fail(func(ctx context.Context, effect string, at drivertest.Point) error {
		if effect == "StartDomain" && at == drivertest.Before {
			return errors.Join(seedbed.Errorf(seedbed.ErrFull, "boom"), l.pool.RemoveVolume(ctx, was.Volumes[0].Name, was.ID))
		}
		return nil
	})
	job := l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobIncomplete)
	if h := l.history(job.ID); !strings.Contains(h, "removed by someone else") {
		t.Errorf("history:\n%s", h)
	}
	if all, err := l.pool.Volumes(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("volumes %v, %v", all, err)
	}
}

// TestRebuildCancelled checks that a rebuild is undone at any moment before its last stage, and is
// completed from there on.
func TestRebuildCancelled(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"CloneVolume", "UndefineDomain", "DefineDomain", "StartDomain"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyReport)
			was := l.made()
			reached := false
			var id seedbed.JobID
			hook := func(ctx context.Context, name string, point drivertest.Point) error {
				if name == at && point == drivertest.Before && !reached {
					reached = true
					l.ok(l.db.CancelJob(t.Context(), id))
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			l.pool.Fail(hook)
			l.hv.Fail(hook)
			id = l.ask(seedbed.DoRebuild, nil)
			l.runUntil(id, seedbed.JobRolledBack)
			l.asBefore(was)
		})
	}
	t.Run("too late", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyReport)
		was := l.made()
		var id seedbed.JobID
		l.pool.Fail(func(ctx context.Context, name string, point drivertest.Point) error {
			if name == "TrashVolume" && point == drivertest.Before {
				l.want("cancel", l.db.CancelJob(ctx, id), seedbed.ErrConflict)
			}
			return nil
		})
		id = l.ask(seedbed.DoRebuild, nil)
		l.runUntil(id, seedbed.JobSucceeded)
		l.rebuilt(was)
	})
	t.Run("at the last moment", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyReport)
		was := l.made()
		id := l.ask(seedbed.DoRebuild, nil)
		l.tune = func(_ *engine.Config, p *engine.Intervals) { p.CancelPoll = time.Hour } // so that it does not see the cancel by itself
		p := l.start(func(p *process) {
			p.store.fail(func(write, stage string, at drivertest.Point) error {
				if write == "step" && stage == "ready" && at == drivertest.Before {
					return l.db.CancelJob(context.Background(), id)
				}
				return nil
			})
		})
		l.wait(id, seedbed.JobRolledBack)
		p.stop()
		l.asBefore(was)
	})
}

// TestRebuildLeavesDisks checks that former disks that cannot be removed are named, and that the
// instance is the new one.
func TestRebuildLeavesDisks(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	was := l.made()
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Attempts = 2 }
	l.failEffect("TrashVolume", drivertest.Before, seedbed.Errorf(seedbed.ErrInUse, "boom"))
	job := l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobFailed)
	now, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if !strings.Contains(job.Error, was.Volumes[0].Name) || now.State != seedbed.InstanceRunning ||
		now.Volumes[0].Name == was.Volumes[0].Name {
		t.Errorf("job %+v, instance %+v", job, now)
	}
	l.domain(now.ID, seedbed.DomainRunning)

	// A retry removes them.
	l.pool.Fail(nil)
	l.hv.Fail(nil)
	_, err = l.db.ResumeJob(t.Context(), job.ID)
	l.ok(err)
	l.runUntil(job.ID, seedbed.JobSucceeded)
	_, err = l.pool.Volume(t.Context(), was.Volumes[0].Name, was.ID)
	l.want("the former disk", err, seedbed.ErrNotFound)
	l.rebuilt(was)
	_, err = l.db.Rebuilding(t.Context(), job.ID)
	l.want("what the job had to know", err, seedbed.ErrNotFound)

	// What is not retried is removed with the instance, and forgotten.
	now, err = l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	l.failEffect("TrashVolume", drivertest.Before, seedbed.Errorf(seedbed.ErrInUse, "boom"))
	left := l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobFailed)
	l.pool.Fail(nil)
	l.hv.Fail(nil)
	_, err = l.db.Rebuilding(t.Context(), left.ID)
	l.ok(err)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	_, err = l.db.Rebuilding(t.Context(), left.ID)
	l.want("what nobody has to know any more", err, seedbed.ErrNotFound)
	_, err = l.pool.Volume(t.Context(), now.Volumes[0].Name, now.ID)
	l.want("its former disk", err, seedbed.ErrNotFound)
	l.nothing("web1")
}

// TestRebuildHoldsItsImage checks that an image that an instance is about to be rebuilt from is in
// use.
func TestRebuildHoldsItsImage(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.made()
	l.runUntil(l.job(l.intake.Import(ctx, "other", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)), seedbed.JobSucceeded)
	id := l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Image: "other"}, nil))
	_, err := l.intake.RemoveImage(ctx, "other", usual)
	l.want("remove the image", err, seedbed.ErrInUse)
	if err == nil || !strings.Contains(err.Error(), "the rebuild of instance web1") {
		t.Errorf("%v", err)
	}
	l.runUntil(id, seedbed.JobSucceeded)
	l.ok(l.db.DeleteProfile(ctx, "small"))
	l.runUntil(l.job(l.intake.RemoveImage(ctx, "debian", usual)), seedbed.JobSucceeded)
	_, err = l.intake.RemoveImage(ctx, "other", usual)
	l.want("remove the image in use", err, seedbed.ErrInUse)
}
