package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// stopped is made, then stopped by a job.
func (l *lab) stopped() seedbed.Instance {
	l.t.Helper()
	inst := l.made()
	l.runUntil(l.submit(seedbed.DoStop), seedbed.JobSucceeded)
	return inst
}

func (l *lab) resize(req seedbed.ResizeRequest) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Resize(l.t.Context(), seedbed.InDefault("web1"), req, usual))
}

// hasSize checks that pool, domain, database and guest plane all have the instance at that size.
func (l *lab) hasSize(id seedbed.InstanceID, disk seedbed.Bytes, vcpus int, memory seedbed.Bytes) {
	l.t.Helper()
	ctx := l.t.Context()
	inst, err := steady(ctx, func() (seedbed.Instance, error) { return l.db.Instance(ctx, id) })
	l.ok(err)
	volume, err := l.pool.Volume(ctx, inst.Volumes[0].Name, id)
	l.ok(err)
	spec, _ := l.hv.Spec(id)
	page, err := steady(ctx, func() (seedbed.FeedPage, error) { return l.db.FeedPage(ctx, testNode, 0, "") })
	l.ok(err)
	served := ""
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest != nil && c.Guest.ID == id {
			served = fmt.Sprint(c.Guest.VCPUs, " ", c.Guest.Memory)
		}
	}
	for what, got := range map[string]string{
		"database": fmt.Sprint(inst.Volumes[0].Size, " ", inst.VCPUs, " ", inst.Memory),
		"pool":     fmt.Sprint(volume.Size, " ", vcpus, " ", memory),
		"domain":   fmt.Sprint(disk, " ", spec.VCPUs, " ", spec.Memory),
		"guest":    fmt.Sprint(disk, " ", served),
	} {
		if want := fmt.Sprint(disk, " ", vcpus, " ", memory); got != want {
			l.t.Errorf("%s has %q; expected %q", what, got, want)
		}
	}
}

// TestResize checks that a disk grows while its guest runs, and the guest is told; vCPUs and memory
// require that it is off.
func TestResize(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	inst := l.made()
	disk := "/memory/" + inst.Volumes[0].Name + ".qcow2"
	job := l.runUntil(l.resize(seedbed.ResizeRequest{Size: 8 * seedbed.MiB}), seedbed.JobSucceeded)
	l.hasSize(inst.ID, 8*seedbed.MiB, 1, 256*seedbed.MiB)
	if told := l.hv.Told(inst.ID, disk); told != 8*seedbed.MiB || job.Total != 2 || job.Pool != "default" {
		t.Errorf("the guest was told %s, job %+v", told, job)
	}
	l.up("web1")
	_, err := l.intake.Resize(t.Context(), seedbed.InDefault("web1"), seedbed.ResizeRequest{VCPUs: 2}, usual)
	l.want("vcpus while it runs", err, seedbed.ErrConflict)

	l.runUntil(l.submit(seedbed.DoStop), seedbed.JobSucceeded)
	l.runUntil(l.resize(seedbed.ResizeRequest{VCPUs: 2}), seedbed.JobSucceeded)
	l.hasSize(inst.ID, 8*seedbed.MiB, 2, 256*seedbed.MiB)
	l.runUntil(l.resize(seedbed.ResizeRequest{Disk: "0", Size: 16 * seedbed.MiB, Memory: seedbed.GiB}), seedbed.JobSucceeded)
	l.hasSize(inst.ID, 16*seedbed.MiB, 2, seedbed.GiB)

	// What is redefined or made again keeps the size.
	l.runUntil(l.job(l.intake.Flatten(t.Context(), seedbed.InDefault("web1"), usual)), seedbed.JobSucceeded)
	l.hasSize(inst.ID, 16*seedbed.MiB, 2, seedbed.GiB)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	l.hasSize(inst.ID, 16*seedbed.MiB, 2, seedbed.GiB)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

func TestResizeRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.stopped()
	for _, c := range []struct {
		what, name string
		req        seedbed.ResizeRequest
		want       error
		says       string
	}{
		{"smaller", "web1", seedbed.ResizeRequest{Size: seedbed.MiB}, seedbed.ErrInvalid, "can only become larger"},
		{"nothing", "web1", seedbed.ResizeRequest{}, seedbed.ErrInvalid, "already has that size"},
		{"what it has", "web1", seedbed.ResizeRequest{Size: 4 * seedbed.MiB, VCPUs: 1}, seedbed.ErrInvalid, "already has that size"},
		{"half a sector", "web1", seedbed.ResizeRequest{Size: 8*seedbed.MiB + 1}, seedbed.ErrInvalid, "sector"},
		{"too large", "web1", seedbed.ResizeRequest{Size: 65 * seedbed.TiB}, seedbed.ErrInvalid, "at most"},
		{"vcpus", "web1", seedbed.ResizeRequest{VCPUs: -1}, seedbed.ErrInvalid, "vcpus"},
		{"memory", "web1", seedbed.ResizeRequest{Memory: 100 * seedbed.MiB / 3}, seedbed.ErrInvalid, "memory"},
		{"disk without a size", "web1", seedbed.ResizeRequest{Disk: "0", VCPUs: 2}, seedbed.ErrInvalid, "size"},
		{"no such disk", "web1", seedbed.ResizeRequest{Disk: "1", Size: seedbed.GiB}, seedbed.ErrNotFound, "expected one of 0 ("},
		{"no such instance", "web2", seedbed.ResizeRequest{Size: seedbed.GiB}, seedbed.ErrNotFound, "web2"},
	} {
		_, err := l.intake.Resize(t.Context(), seedbed.InDefault(c.name), c.req, usual)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want one that is %q and says %q", c.what, err, c.want, c.says)
		}
		if plan, err := l.intake.PlanResize(t.Context(), seedbed.InDefault(c.name), c.req); err != nil ||
			len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0], c.says) {
			t.Errorf("plan of %s: %+v, %v", c.what, plan, err)
		}
	}
	plan, err := l.intake.PlanResize(t.Context(), seedbed.InDefault("web1"), seedbed.ResizeRequest{Size: seedbed.GiB, VCPUs: 2})
	if err != nil || len(plan.Problems) != 0 || plan.Volumes[0].Size != seedbed.GiB || plan.VCPUs != 2 || plan.Memory != 256*seedbed.MiB {
		t.Errorf("plan %+v, %v", plan, err)
	}
	_, err = l.intake.Resize(t.Context(), seedbed.InDefault("web1"), seedbed.ResizeRequest{Size: seedbed.GiB}, keeping())
	l.want("on_failure keep", err, seedbed.ErrInvalid)
}

// TestResizeFails checks that everything is undone until the disk has begun to grow. From then on
// the job fails, reports what is done, and continues when it is retried.
func TestResizeFails(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyMetadata)
			l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Attempts = 2 }
			inst := l.stopped()
			req := seedbed.ResizeRequest{Size: 8 * seedbed.MiB, VCPUs: 2}
			var once, room atomic.Bool
			l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
				if name == "ResizeDomain" && at == point && once.CompareAndSwap(false, true) {
					return seedbed.Errorf(seedbed.ErrInvalid, "boom")
				}
				return nil
			})
			l.runUntil(l.resize(req), seedbed.JobRolledBack)
			l.hasSize(inst.ID, 4*seedbed.MiB, 1, 256*seedbed.MiB)

			l.pool.Fail(func(_ context.Context, name string, at drivertest.Point) error {
				if name == "ResizeVolume" && at == point && !room.Load() {
					return seedbed.Errorf(seedbed.ErrFull, "no room")
				}
				return nil
			})
			id := l.resize(req)
			job := l.runUntil(id, seedbed.JobFailed)
			if !strings.Contains(job.Error, "no room") {
				t.Errorf("error %q", job.Error)
			}
			room.Store(true)
			_, err := l.db.ResumeJob(t.Context(), id)
			l.ok(err)
			l.want("cancel in the last stage", l.db.CancelJob(t.Context(), id), seedbed.ErrConflict)
			l.runUntil(id, seedbed.JobSucceeded)
			l.hasSize(inst.ID, 8*seedbed.MiB, 2, 256*seedbed.MiB)
		})
	}
}

// TestResizeOfWhatWasStarted checks that a domain that was started externally in the meantime is
// not redefined or damaged.
func TestResizeOfWhatWasStarted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	inst := l.stopped()
	id := l.resize(seedbed.ResizeRequest{VCPUs: 2})
	l.ok(l.hv.StartDomain(t.Context(), inst.ID))
	if job := l.runUntil(id, seedbed.JobRolledBack); !strings.Contains(job.Error, "runs") {
		t.Errorf("error %q", job.Error)
	}
	l.hasSize(inst.ID, 4*seedbed.MiB, 1, 256*seedbed.MiB)
}

// TestResizeScripted checks that the domain of a script stays as the script defines it.
func TestResizeScripted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
	l.runUntil(l.submit(seedbed.DoStop), seedbed.JobSucceeded)
	req := seedbed.ResizeRequest{VCPUs: 7}
	_, err := l.intake.Resize(t.Context(), seedbed.InDefault("web1"), req, usual)
	l.want("resize", err, seedbed.ErrConflict)
	plan, err := l.intake.PlanResize(t.Context(), seedbed.InDefault("web1"), req)
	l.ok(err)
	if len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0], "is defined by its script") {
		t.Errorf("plan %+v", plan)
	}
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	job := seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobResize, Subject: "web1",
		Instance: inst.ID, Node: inst.Node, Spec: []byte(`{"vcpus":7}`)}
	if job := l.runUntil(l.job(l.db.Accept(t.Context(), seedbed.Acceptance{Job: job})),
		seedbed.JobRolledBack); !strings.Contains(job.Error, "is defined by its script") {
		t.Errorf("error %q", job.Error)
	}
	l.runUntil(l.resize(seedbed.ResizeRequest{Disk: inst.Volumes[0].Name, Size: seedbed.TiB}), seedbed.JobSucceeded)
}
