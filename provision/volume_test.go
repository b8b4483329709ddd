package provision

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/intake"
	"seedbed/provision/worker/drivertest"
)

// job returns the job of an accepted request.
func (l *lab) job(receipt seedbed.Receipt, err error) seedbed.JobID {
	l.t.Helper()
	l.ok(err)
	return receipt.Job
}

func (l *lab) want(what string, err, kind error) {
	l.t.Helper()
	if !errors.Is(err, kind) {
		l.t.Errorf("%s: %v; expected one that is %q", what, err, kind)
	}
}

// made makes a running instance "web1".
func (l *lab) made() seedbed.Instance {
	l.t.Helper()
	l.runUntil(l.create("web1"), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	return inst
}

// off is made, then switched off.
func (l *lab) off() seedbed.Instance {
	l.t.Helper()
	inst := l.made()
	l.ok(l.hv.DestroyDomain(l.t.Context(), inst.ID))
	return inst
}

func (l *lab) snapshots(inst seedbed.Instance, want ...string) {
	l.t.Helper()
	all, err := l.pool.Snapshots(l.t.Context(), inst.Volumes[0].Name, inst.ID)
	l.ok(err)
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if d := cmp.Diff(want, names); d != "" {
		l.t.Errorf("snapshots (-want +got):\n%s", d)
	}
}

// tells checks that an event of a job says so, and that none says that a snapshot is removed.
func (l *lab) tells(job seedbed.JobID, want string) {
	l.t.Helper()
	events, err := l.db.Events(l.t.Context(), job, 0, 100)
	l.ok(err)
	var all []string
	for _, e := range events {
		all = append(all, e.Msg)
		if strings.Contains(e.Msg, "is removed") || strings.Contains(e.Msg, "is gone") {
			l.t.Errorf("an event says %q", e.Msg)
		}
	}
	if !slices.Contains(all, want) {
		l.t.Errorf("no event says %q:\n%s", want, strings.Join(all, "\n"))
	}
}

func TestSnapshotJobs(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	_, err := l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s1", "", usual)
	l.want("absent instance", err, seedbed.ErrNotFound)
	inst := l.made()
	_, err = l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "-d", "", usual)
	l.want("name", err, seedbed.ErrInvalid)
	l.runUntil(l.job(l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s1", "", usual)), seedbed.JobSucceeded)
	l.snapshots(inst, "s1")
	job := l.runUntil(l.job(l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s1", "", usual)), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "exists") {
		t.Errorf("error %q", job.Error)
	}
	l.snapshots(inst, "s1")
	l.tells(job.ID, "snapshot s1 of volume "+inst.Volumes[0].Name+" was there before, and stays")
	second := l.job(l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s2", "", usual))
	_, err = l.intake.Flatten(ctx, seedbed.InDefault("web1"), usual)
	l.want("two jobs", err, seedbed.ErrInUse)
	_, err = l.intake.Submit(ctx, seedbed.Request{Action: "remove", Name: "web1"}, nil)
	l.want("remove meanwhile", err, seedbed.ErrInUse)
	l.runUntil(second, seedbed.JobSucceeded)
	removal := l.job(l.intake.RemoveSnapshot(ctx, seedbed.InDefault("web1"), "s1", usual))
	l.want("cancel a removal", l.db.CancelJob(ctx, removal), seedbed.ErrInvalid)
	l.runUntil(removal, seedbed.JobSucceeded)
	l.snapshots(inst, "s2")
	l.up("web1")
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

// TestSnapshotIsRefusedBeforeItsJob checks that no job is made for a snapshot that cannot be taken, of a name that is in use.
func TestSnapshotIsRefusedBeforeItsJob(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.serve(func(s *intake.Serving) {
		s.Snapshots = func(ctx context.Context, _, _, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
			return l.pool.Snapshots(ctx, volume, id)
		}
	})
	inst := l.made()
	l.runUntil(l.job(l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s1", "", usual)), seedbed.JobSucceeded)
	refused := func(want string, kind error) {
		t.Helper()
		_, err := l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s1", "", usual)
		l.want(want, err, kind)
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	refused(`instance "web1" has a snapshot "s1" already: take another name`, seedbed.ErrExists)
	l.runUntil(l.submit(seedbed.DoStop), seedbed.JobSucceeded)
	l.runUntil(l.job(l.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s2", "", usual)), seedbed.JobSucceeded)
	l.snapshots(inst, "s1", "s2")
	jobs, err := l.db.Jobs(ctx, 10)
	l.ok(err)
	if len(jobs) != 5 { // the import, the create, two snapshots and the stop
		t.Errorf("%d jobs", len(jobs))
	}
}

// TestVolumeJobFails checks that a failed job undoes what it did, and nothing else: the instance
// stays.
func TestVolumeJobFails(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			inst := l.made()
			l.failEffect("SnapshotDisks", point, seedbed.Errorf(seedbed.ErrFull, "boom"))
			job := l.runUntil(l.job(l.intake.Snapshot(t.Context(), seedbed.InDefault("web1"), "s1", "", usual)), seedbed.JobRolledBack)
			l.snapshots(inst)
			l.tells(job.ID, "no snapshot s1 that this job took is left of volume "+inst.Volumes[0].Name)
			l.failEffect("FlattenVolume", point, seedbed.Errorf(seedbed.ErrInUse, "switch it off"))
			job = l.runUntil(l.job(l.intake.Flatten(t.Context(), seedbed.InDefault("web1"), usual)), seedbed.JobRolledBack)
			if !strings.Contains(job.Error, "switch it off") {
				t.Errorf("error %q", job.Error)
			}
			l.up("web1")
		})
	}
}

// flat checks that the instance is off and defined, and does not need its image.
func (l *lab) flat(id seedbed.InstanceID) {
	l.t.Helper()
	ctx := l.t.Context()
	inst, err := l.db.Instance(ctx, id)
	l.ok(err)
	d, err := l.hv.DomainState(ctx, id)
	l.ok(err)
	if inst.Volumes[0].Image != "" || inst.Image != "debian" || d.State != seedbed.DomainOff {
		l.t.Errorf("instance %+v, domain %s", inst, d.State)
	}
	if spec, _ := l.hv.Spec(id); len(spec.Disks) != 1 || !strings.Contains(spec.Disks[0].Source, inst.Volumes[0].Name) || len(spec.NICs) != 1 {
		l.t.Errorf("domain %+v", spec)
	}
	l.ok(l.db.DeleteProfile(ctx, "small"))
	l.runUntil(l.job(l.intake.RemoveImage(ctx, "debian", usual)), seedbed.JobSucceeded)
	if _, err := l.db.Image(ctx, "debian"); !errors.Is(err, seedbed.ErrNotFound) {
		l.t.Errorf("image: %v", err)
	}
}

func TestFlattenJob(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.off()
	job := l.runUntil(l.job(l.intake.Flatten(t.Context(), seedbed.InDefault("web1"), usual)), seedbed.JobSucceeded)
	if job.Done != 2 || !strings.Contains(l.history(job.ID), "is independent") {
		t.Errorf("job %+v\n%s", job, l.history(job.ID))
	}
	l.flat(inst.ID)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	if all, err := l.pool.Volumes(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("volumes %v, %v", all, err)
	}
}

// TestFlattenOfWhatWasStarted checks that a domain that was started while its volumes were
// flattened keeps its definition, and so its image, until the job is requested again.
func TestFlattenOfWhatWasStarted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	job := l.runUntil(l.job(l.intake.Flatten(t.Context(), seedbed.InDefault("web1"), usual)), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "stop it and flatten it again") {
		t.Errorf("error %q", job.Error)
	}
	l.up("web1")
	l.ok(l.db.DeleteProfile(t.Context(), "small"))
	_, err := l.intake.RemoveImage(t.Context(), "debian", usual)
	l.want("remove the image", err, seedbed.ErrInUse)
	l.ok(l.hv.DestroyDomain(t.Context(), inst.ID))
	state := l.hv.FirmwareState(inst.ID)
	l.runUntil(l.job(l.intake.Flatten(t.Context(), seedbed.InDefault("web1"), usual)), seedbed.JobSucceeded)
	if got := l.hv.FirmwareState(inst.ID); got != state {
		t.Errorf("the firmware and the TPM of the domain have the state %d; want %d, as before", got, state)
	}
	l.runUntil(l.job(l.intake.RemoveImage(t.Context(), "debian", usual)), seedbed.JobSucceeded)
}

func TestFlattenCancelled(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"FlattenVolume", "UndefineKept", "DefineDomain"} {
		t.Run(effect, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			inst := l.off()
			var inside, stopped atomic.Bool
			hook := func(ctx context.Context, name string, at drivertest.Point) error {
				switch {
				case name == "StopFlatten" && at == drivertest.After:
					stopped.Store(true)
				case name == effect && at == drivertest.Before && inside.CompareAndSwap(false, true):
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			l.pool.Fail(hook)
			l.hv.Fail(hook)
			id := l.job(l.intake.Flatten(t.Context(), seedbed.InDefault("web1"), usual))
			p := l.start()
			l.eventually("flatten to begin", inside.Load)
			l.ok(l.db.CancelJob(t.Context(), id))
			l.wait(id, seedbed.JobRolledBack)
			p.stop()
			if !stopped.Load() {
				t.Error("the flatten goes on")
			}
			now, err := l.db.Instance(t.Context(), inst.ID)
			l.ok(err)
			if _, err := l.hv.DomainState(t.Context(), inst.ID); err != nil || now.Volumes[0].Image != "debian" {
				t.Errorf("domain: %v, volumes %+v", err, now.Volumes)
			}
		})
	}
}

func TestImageRemove(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.pool.SetTrash(time.Hour)
	l.made()
	_, err := l.intake.RemoveImage(ctx, "none", usual)
	l.want("absent image", err, seedbed.ErrNotFound)
	_, err = l.intake.RemoveImage(ctx, "debian", usual)
	l.want("used image", err, seedbed.ErrInUse)
	if err == nil || !strings.Contains(err.Error(), "profile small") || !strings.Contains(err.Error(), "instance web1") {
		t.Errorf("who uses it: %v", err)
	}
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.ok(l.db.DeleteProfile(ctx, "small"))

	// Only the pool knows of a clone in the trash.
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Attempts = 2 }
	job := l.runUntil(l.job(l.intake.RemoveImage(ctx, "debian", usual)), seedbed.JobFailed)
	image, err := l.db.Image(ctx, "debian")
	l.ok(err)
	if image.State != seedbed.ImageActive || !strings.Contains(job.Error, "clones in the trash") {
		t.Errorf("image is %s, error %q", image.State, job.Error)
	}
	items, err := l.pool.Trash(ctx)
	l.ok(err)
	l.ok(l.pool.PurgeVolume(ctx, items[0].ID, true))
	id := l.job(l.intake.RemoveImage(ctx, "debian", usual))
	_, err = l.intake.RemoveImage(ctx, "debian", usual)
	l.want("remove twice", err, seedbed.ErrInUse)
	_, err = l.db.CreateProfile(ctx, seedbed.Profile{Name: "late", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, Network: "default"})
	l.want("profile of an image that goes", err, seedbed.ErrInvalid)
	l.runUntil(id, seedbed.JobSucceeded)
	if all, err := l.pool.Images(ctx); err != nil || len(all) != 0 {
		t.Errorf("images %v, %v", all, err)
	}
	l.runUntil(l.job(l.intake.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)), seedbed.JobSucceeded)
}

// TestImageRemoveAfterAFailedImport checks that the rest of an import that could not be undone is
// removed like an image.
func TestImageRemoveAfterAFailedImport(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	l.pool.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "ImportImage" && at == drivertest.After || name == "RemoveImage" && at == drivertest.Before {
			return errors.New("boom")
		}
		return nil
	})
	id := l.job(l.intake.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual))
	_, err := l.intake.RemoveImage(ctx, "debian", usual)
	l.want("remove while it is imported", err, seedbed.ErrInUse)
	l.runUntil(id, seedbed.JobIncomplete)
	l.pool.Fail(nil)
	l.runUntil(l.job(l.intake.RemoveImage(ctx, "debian", usual)), seedbed.JobSucceeded)
	if all, err := l.pool.Images(ctx); err != nil || len(all) != 0 {
		t.Errorf("images %v, %v", all, err)
	}
	l.runUntil(l.job(l.intake.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)), seedbed.JobSucceeded)
}
