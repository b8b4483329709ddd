package provision

import (
	"context"
	"errors"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// left checks that only the disks of an undefined instance exist, and belong to no instance.
func (l *lab) left(name string, disks ...string) {
	l.t.Helper()
	ctx := l.t.Context()
	_, err := l.db.InstanceByName(ctx, seedbed.InDefault(name))
	l.want("the instance", err, seedbed.ErrNotFound)
	_, err = l.hv.ForeignDomain(ctx, name)
	l.want("its domain", err, seedbed.ErrNotFound)
	if ours, err := l.pool.Volumes(ctx); err != nil || len(ours) != 0 {
		l.t.Errorf("volumes %+v, %v: expected none of ours", ours, err)
	}
	for _, d := range disks {
		if _, err := l.pool.Locate(ctx, seedbed.ForeignDisk{Target: "vda", Type: "file", Source: "/memory/" + d + ".qcow2"}); err != nil {
			l.t.Errorf("disk %s: %v", d, err)
		}
	}
}

func (l *lab) disksOnly(name string) seedbed.JobID {
	l.t.Helper()
	return l.job(l.asPVC(l.t.Context(), seedbed.Request{Name: name, Profile: "web", Undefined: true}))
}

func TestUndefined(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	job := l.runUntil(l.disksOnly("web3"), seedbed.JobSucceeded)
	if job.Total != 2 {
		t.Errorf("%d stages", job.Total)
	}
	l.left("web3", "web3_sda", "web3_sdb")
	// Its name is free, but not its disks' names.
	job = l.runUntil(l.disksOnly("web3"), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "web3_sda") {
		t.Errorf("the second ended with %q", job.Error)
	}
	l.left("web3", "web3_sda", "web3_sdb")
	l.runUntil(l.compose("web3", true), seedbed.JobSucceeded)
}

// TestUndefinedLongName checks that names of disks that are too long are refused with the request.
func TestUndefinedLongName(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	_, err := l.asPVC(t.Context(), seedbed.Request{Name: strings.Repeat("w", 60), Profile: "web", Undefined: true})
	l.want("a long name", err, seedbed.ErrInvalid)
	if !strings.Contains(err.Error(), "choose a shorter name") {
		t.Error(err)
	}
}

func TestUndefinedScripted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	id := l.disksOnly("web1")
	l.runUntil(id, seedbed.JobSucceeded)
	l.left("web1", "web1_sda", "web1_sdb")
	history := l.history(id)
	if !strings.Contains(history, "create() is skipped") || strings.Contains(history, "is defined") || l.host.scripts.Live() != 0 {
		t.Errorf("%d scripts run; the history:\n%s", l.host.scripts.Live(), history)
	}
}

// TestUndefinedFails checks that a failure before the disks are released leaves none; from then on
// the stage is retried.
func TestUndefinedFails(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps("install: fail no mirror"))
	l.runUntil(l.disksOnly("web1"), seedbed.JobRolledBack)
	l.nothing("web1")

	l = newLab(t).withProvisioner()
	failed := 0
	l.pool.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "ReleaseVolume" && at == drivertest.Before && failed < 2 {
			failed++
			return errors.New("broken")
		}
		return nil
	})
	l.runUntil(l.disksOnly("web2"), seedbed.JobSucceeded)
	l.left("web2", "web2_sda", "web2_sdb")
}

// TestUndefinedIsLetGo checks that the stage that releases the disks cannot be undone: neither a
// cancel nor a removal interrupts it.
func TestUndefinedIsLetGo(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	id := l.disksOnly("web1")
	l.pool.Fail(func(ctx context.Context, name string, at drivertest.Point) error {
		if name == "ReleaseVolume" && at == drivertest.Before {
			l.want("cancel", l.db.CancelJob(ctx, id), seedbed.ErrConflict)
			_, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRemove, Name: "web1"}, nil)
			l.want("removal", err, seedbed.ErrConflict)
		}
		return nil
	})
	l.runUntil(id, seedbed.JobSucceeded)
	l.left("web1", "web1_sda", "web1_sdb")
}
