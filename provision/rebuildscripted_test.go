package provision

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/worker/drivertest"
)

// scriptedRebuild requests a rebuild of web1 with its own profile.
func (l *lab) scriptedRebuild(params map[string]any) seedbed.JobID {
	l.t.Helper()
	given := both(map[string]any{"force": true}, params)
	return l.job(l.intake.Submit(l.t.Context(), seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Params: given}, nil))
}

// asScripted checks that web1 runs from disks with those names, from a document of its script that
// names them, and that nothing else is left.
func (l *lab) asScripted(names ...string) seedbed.Instance {
	l.t.Helper()
	inst, there := l.composedVolumes("web1")
	slices.Sort(there)
	if d := cmp.Diff(names, there); d != "" {
		l.t.Errorf("the pool (-want +got):\n%s", d)
	}
	xml, err := l.db.ScriptDomain(l.t.Context(), inst.ID)
	l.ok(err)
	var have []string
	for i, v := range inst.Volumes {
		if have = append(have, v.Name); v.Index != i {
			l.t.Errorf("disk %d has the place %d", i, v.Index)
		}
	}
	if d := cmp.Diff(names, have); d != "" || !strings.Contains(xml, "'default/"+names[0]+"'") {
		l.t.Errorf("the instance's disks (-want +got):\n%s\n%s", d, xml)
	}
	spec, _ := l.hv.Spec(inst.ID)
	if spec.Script == nil || spec.Script.XML != xml ||
		!slices.Equal(spec.Script.Volumes, []string{"default/" + names[0], "default/" + names[1]}) {
		l.t.Errorf("the domain is defined from %+v", spec.Script)
	}
	if l.host.scripts.Live() != 0 {
		l.t.Error("the script still runs")
	}
	l.runsFrom(inst)
	page, err := l.db.FeedPage(l.t.Context(), testNode, 0, "")
	l.ok(err)
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest != nil && (len(c.Guest.Disks) != 2 || c.Guest.Disks[0].Device != "sda") {
			l.t.Errorf("the guest is told of the disks %v", c.Guest.Disks)
		}
	}
	return inst
}

// TestScriptedRebuild checks that a rebuild runs the script of the instance's profile again. It
// makes disks beside the former ones, whose names it does not see.
func TestScriptedRebuild(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
	was := l.asScripted("web1_sda", "web1_sdb")
	var off atomic.Bool // it was off before the new disks were complete
	l.host.scripts.Fail(func(_ context.Context, name string, point drivertest.Point) error {
		if d, err := l.hv.DomainState(context.Background(), was.ID); err == nil && d.State != seedbed.DomainRunning {
			off.Store(true)
		}
		return nil
	})
	plan, err := l.intake.Plan(t.Context(), seedbed.Request{Action: seedbed.DoRebuild, Name: "web1"})
	l.ok(err)
	want := []string{"collect", "verify", "prepare-script", "setup", "create", "prepare", "install", "cleanup",
		"general-cleanup", "shutdown", "stop", "redefine", "publish", "start", "ready", "delete"}
	if d := cmp.Diff(want, plan.Stages); d != "" || plan.Script != "build" || len(plan.Volumes) != 1 || len(plan.Problems) > 0 {
		t.Errorf("plan %+v, stages (-want +got):\n%s", plan, d)
	}
	id := l.scriptedRebuild(map[string]any{"who": "rebuild"})
	l.runUntil(id, seedbed.JobSucceeded)
	now := l.asScripted("web1_sda-"+id.Short(), "web1_sdb-"+id.Short())
	if d := cmp.Diff(same(was), same(now), byValue); d != "" {
		t.Errorf("the instance (-before +after):\n%s", d)
	}
	starts := l.host.scripts.Starts()
	if len(starts) != 2 || starts[0].Suffix != "" || starts[1].Suffix != "-"+id.Short() ||
		starts[1].Name != "web1" || !strings.Contains(string(starts[1].Data), `"who":"rebuild"`) {
		t.Errorf("began with %+v", starts)
	}
	if off.Load() {
		t.Error("the guest was off while the script ran")
	}
	if _, err := l.db.ScriptRun(t.Context(), id); err == nil {
		t.Error("the job's script is still kept")
	}
	again := l.scriptedRebuild(nil) // beside disks of a rebuild
	l.runUntil(again, seedbed.JobSucceeded)
	l.asScripted("web1_sda-"+again.Short(), "web1_sdb-"+again.Short())
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

// TestScriptedRebuildFails checks that whatever fails, the instance runs on from its former disks,
// with its former document.
func TestScriptedRebuildFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, effect, says string }{
		{"the script", steps("install: fail no mirror"), "", "Error in script install() step: no mirror"},
		{"no disk that the domain names", steps("setup: print x")[:strings.Index(steps(), "prepare:")] + "cleanup: log done",
			"", "general-cleanup"},
		{"a clone", steps(), "CloneVolume", "is refused"},
		{"the domain", steps(), "DefineDomain", "is refused"},
		{"its start", steps(), "StartDomain", "is refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withScript(steps())
			l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
			was := l.asScripted("web1_sda", "web1_sdb")
			l.setScript("build", test.script)
			id := l.scriptedRebuild(nil)
			var failed atomic.Int32
			refuse := func(_ context.Context, name string, at drivertest.Point) error {
				if name == test.effect && at == drivertest.Before && failed.Add(1) == 1 {
					return seedbed.Errorf(seedbed.ErrForbidden, "%s is refused", name)
				}
				return nil
			}
			l.hv.Fail(refuse)
			l.pool.Fail(refuse)
			job := l.runUntil(id, seedbed.JobRolledBack)
			if !strings.Contains(job.Error, test.says) {
				t.Errorf("error %q; want %q", job.Error, test.says)
			}
			now := l.asScripted("web1_sda", "web1_sdb")
			was.Revision, was.Changed, was.Fetched, was.Reported = now.Revision, now.Changed, now.Fetched, now.Reported
			if d := cmp.Diff(was, now, byValue); d != "" {
				t.Errorf("the instance (-before +after):\n%s", d)
			}
		})
	}
}

// TestScriptedRebuildCancelled checks that a rebuild that is cancelled while its script runs leaves
// the instance as it was.
func TestScriptedRebuildCancelled(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
	l.setScript("build", steps("install: hang"))
	id := l.scriptedRebuild(nil)
	p := l.start()
	l.eventually("the script", func() bool {
		job, err := l.db.Job(t.Context(), id)
		l.ok(err)
		return job.Stage == "install" && l.host.scripts.Live() == 1
	})
	l.ok(l.db.CancelJob(t.Context(), id))
	l.wait(id, seedbed.JobRolledBack)
	p.stop()
	l.asScripted("web1_sda", "web1_sdb")
}

// TestRebuildOfScripted checks that an instance that a script has made is rebuilt like one of a
// native profile, and has the script's domain again if that fails.
func TestRebuildOfScripted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	ctx := t.Context()
	l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	devices := func() (names []string) {
		t.Helper()
		page, err := l.db.FeedPage(ctx, testNode, 0, "")
		l.ok(err)
		for _, d := range feedtest.Changes(t, page)[0].Guest.Disks {
			names = append(names, d.Device)
		}
		return names
	}
	rebuild := func() seedbed.JobID {
		t.Helper()
		return l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Profile: "small"}, nil))
	}
	l.failEffect("StartDomain", drivertest.Before, seedbed.Errorf(seedbed.ErrFull, "boom"))
	l.runUntil(rebuild(), seedbed.JobIncomplete)
	l.hv.Fail(nil)
	spec, _ := l.hv.Spec(inst.ID)
	if d := cmp.Diff([]string{"sda", ""}, devices()); d != "" || spec.Script == nil {
		t.Errorf("after a rebuild that failed, of a script: %t; disks (-want +got):\n%s", spec.Script != nil, d)
	}
	l.runUntil(rebuild(), seedbed.JobSucceeded)
	spec, _ = l.hv.Spec(inst.ID)
	if d := cmp.Diff([]string{"vda"}, devices()); d != "" || spec.Script != nil {
		t.Errorf("after the rebuild, of a script: %t; disks (-want +got):\n%s", spec.Script != nil, d)
	}
}
