package provision

import (
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// copying makes the profile's disks be copied.
func (l *lab) copying() *lab {
	l.t.Helper()
	_, err := l.db.CreateSystemTemplate(l.t.Context(),
		seedbed.SystemTemplate{Name: "copied", VCPUs: 1, Memory: 256 * seedbed.MiB, DiskCopy: true})
	l.ok(err)
	_, err = l.db.ChangeProfile(l.t.Context(), "small", func(p *seedbed.Profile) error { p.System = "copied"; return nil })
	l.ok(err)
	return l
}

// standsAlone checks that the instance runs, and does not need its image.
func (l *lab) standsAlone() {
	l.t.Helper()
	l.up("web1")
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if inst.Volumes[0].Image != "" || !inst.System.DiskCopy {
		l.t.Errorf("volume %+v, system %+v", inst.Volumes[0], inst.System)
	}
}

// TestCopiedDisks checks that a copied disk does not need its image from the first moment on, even
// after a rebuild.
func TestCopiedDisks(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).copying()
	job := l.create("web1")
	l.runUntil(job, seedbed.JobSucceeded)
	l.standsAlone()
	if said := l.history(job); !strings.Contains(said, "copying volume") || !strings.Contains(said, "is independent") {
		t.Errorf("history:\n%s", said)
	}
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	l.standsAlone()
	l.ok(l.db.DeleteProfile(t.Context(), "small"))
	l.runUntil(l.job(l.intake.RemoveImage(t.Context(), "debian", usual)), seedbed.JobSucceeded)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	if all, err := l.pool.Volumes(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("volumes %v, %v", all, err)
	}
}

// TestCopyFails checks that a failed copy is stopped, and that its volume is removed.
func TestCopyFails(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).copying()
	l.failEffect("FlattenVolume", drivertest.After, seedbed.Errorf(seedbed.ErrFull, "no room for a copy"))
	job := l.runUntil(l.create("web1"), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "no room for a copy") {
		t.Errorf("error %q", job.Error)
	}
	l.nothing("web1")
}
