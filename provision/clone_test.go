package provision

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/worker/drivertest"
)

// cloneCases are the cases of jobs that clone instances.
var cloneCases = []jobCase{
	{"clone of a running guest", seedbed.Job{Kind: seedbed.JobClone, Spec: inputOf(seedbed.CloneJob{Together: true})}, func(l *lab) caseJob {
		of := l.written()
		guest := l.withGuestAgent(of)
		return caseJob{l.clone(seedbed.CloneRequest{}), func() { l.cloned(of, "new"); l.thawed(guest) },
			func() { l.notCloned(of); l.thawed(guest) }}
	}},
	{"clone of a running guest, generalised", seedbed.Job{Kind: seedbed.JobClone,
		Spec: inputOf(seedbed.CloneJob{Together: true, Generalise: true})}, func(l *lab) caseJob {
		of := l.written()
		id := l.clone(seedbed.CloneRequest{Generalise: true, Freeze: seedbed.FreezeNever})
		return caseJob{id, func() { l.cloned(of, "new") }, func() { l.notCloned(of) }}
	}},
	{"clone of a snapshot", seedbed.Job{Kind: seedbed.JobClone}, func(l *lab) caseJob {
		of := l.written()
		return caseJob{l.clone(seedbed.CloneRequest{Snapshot: "s1"}), func() { l.cloned(of, "old") }, func() { l.notCloned(of) }}
	}},
	{"clone generalised", seedbed.Job{Kind: seedbed.JobClone, Spec: inputOf(seedbed.CloneJob{Generalise: true})}, func(l *lab) caseJob {
		of := l.written()
		id := l.clone(seedbed.CloneRequest{Snapshot: "s1", Generalise: true})
		return caseJob{id, func() { l.cloned(of, "old") }, func() { l.notCloned(of) }}
	}},
}

// clone returns the job that clones web1 as web2.
func (l *lab) clone(req seedbed.CloneRequest) seedbed.JobID {
	l.t.Helper()
	req.Name = "web2"
	return l.job(l.intake.Clone(l.t.Context(), seedbed.InDefault("web1"), req, usual))
}

// servedTo returns what an instance is served.
func (l *lab) servedTo(id seedbed.InstanceID) (g seedbed.Guest, doc []byte) {
	l.t.Helper()
	page, err := steady(l.t.Context(), func() (seedbed.FeedPage, error) { return l.db.FeedPage(l.t.Context(), testNode, 0, "") })
	l.ok(err)
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest == nil || c.Guest.ID != id {
			continue
		}
		if c.Guest.UserData != nil {
			doc, err = l.db.Blob(l.t.Context(), c.Guest.UserData.SHA256)
			l.ok(err)
		}
		return *c.Guest, doc
	}
	l.t.Fatalf("%s is not served", id)
	return g, nil
}

// cloned checks that web2 runs from a copy of the disk of another instance, which is as it was, and that nothing that tells the two
// apart is the same.
func (l *lab) cloned(of seedbed.Instance, content string) {
	l.t.Helper()
	got := l.byName("web2")
	l.domain(got.ID, seedbed.DomainRunning)
	spec, _ := l.hv.Spec(got.ID)
	if len(spec.Disks) != 1 || !strings.Contains(spec.Disks[0].Source, got.Volumes[0].Name) || got.Volumes[0].Image != "" ||
		l.pool.Read(got.Volumes[0].Name) != content {
		l.t.Errorf("the clone has %+v with %q", got.Volumes, l.pool.Read(got.Volumes[0].Name))
	}
	if got.ID == of.ID || got.NICs[0].MAC == of.NICs[0].MAC || got.NICs[0].Addr == of.NICs[0].Addr || got.NICs[0].ID == of.NICs[0].ID ||
		got.Profile != of.Profile || got.Memory != of.Memory || got.NICs[0].Network != of.NICs[0].Network {
		l.t.Errorf("the clone is %+v\nof %+v", got, of)
	}
	if g, _ := l.servedTo(got.ID); g.Name != "web2" || g.ReportToken != got.ReportToken {
		l.t.Errorf("the clone is served %+v", g)
	}
	if g, _ := l.servedTo(of.ID); g.Name != "web1" || g.ReportToken != of.ReportToken {
		l.t.Errorf("the other one is served %+v", g)
	}
	l.staysCloned(of, 2)
}

func (l *lab) notCloned(of seedbed.Instance) {
	l.t.Helper()
	l.staysCloned(of, 1)
}

// staysCloned checks that an instance and its disk are as they were, and how many volumes the pool has.
func (l *lab) staysCloned(of seedbed.Instance, volumes int) {
	l.t.Helper()
	l.domain(of.ID, seedbed.DomainRunning)
	l.snapshots(of, "s1")
	there, err := l.pool.Volumes(l.t.Context())
	l.ok(err)
	if len(there) != volumes || l.pool.Read(of.Volumes[0].Name) != "new" {
		l.t.Errorf("in the pool are %+v", there)
	}
	if n := l.host.scripts.Live(); n != 0 {
		l.t.Errorf("%d scripts run", n)
	}
}

// TestCloneReports checks that an instance and its clone each have a report address of their own, in their records and in their documents.
func TestCloneReports(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	of := l.made()
	l.runUntil(l.clone(seedbed.CloneRequest{}), seedbed.JobSucceeded)
	got := l.byName("web2")
	if of.ReportToken == "" || got.ReportToken == "" || got.ReportToken == of.ReportToken {
		t.Fatalf("the report addresses are %q and %q", of.ReportToken, got.ReportToken)
	}
	_, first := l.servedTo(of.ID)
	_, second := l.servedTo(got.ID)
	if !bytes.Contains(first, []byte(of.ReportToken)) || bytes.Contains(first, []byte(got.ReportToken)) ||
		!bytes.Contains(second, []byte(got.ReportToken)) || bytes.Contains(second, []byte(of.ReportToken)) {
		t.Errorf("the documents are\n%s\nand\n%s", first, second)
	}
}

// TestCloneRefused checks what is not cloned, and that the plan says the same.
func TestCloneRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := context.WithoutCancel(t.Context())
	l.made()
	for name, c := range map[string]struct {
		of   string
		req  seedbed.CloneRequest
		want error
	}{
		"no instance": {"none", seedbed.CloneRequest{Name: "web2"}, seedbed.ErrNotFound},
		"no name":     {"web1", seedbed.CloneRequest{}, seedbed.ErrInvalid},
		"its name":    {"web1", seedbed.CloneRequest{Name: "web1"}, seedbed.ErrExists},
		"no freeze":   {"web1", seedbed.CloneRequest{Name: "web2", Freeze: "sometimes"}, seedbed.ErrInvalid},
		"a snapshot":  {"web1", seedbed.CloneRequest{Name: "web2", Freeze: "auto", Snapshot: "s1"}, seedbed.ErrInvalid},
		"no network":  {"web1", seedbed.CloneRequest{Name: "web2", Networks: map[string]string{"default": "none"}}, seedbed.ErrInvalid},
	} {
		_, err := l.intake.Clone(ctx, seedbed.InDefault(c.of), c.req, usual)
		l.want(name, err, c.want)
		p, err := l.intake.PlanClone(ctx, seedbed.InDefault(c.of), c.req)
		if err != nil || len(p.Problems) == 0 {
			t.Errorf("%s: the plan is %+v, %v", name, p, err)
		}
	}
	p, err := l.intake.PlanClone(ctx, seedbed.InDefault("web1"), seedbed.CloneRequest{Name: "web2", Generalise: true})
	if err != nil || len(p.Problems) > 0 || len(p.Stages) != 7 || len(p.Volumes) != 1 || len(p.NICs) != 1 {
		t.Errorf("the plan is %+v, %v", p, err)
	}
}

// TestCloneOfInstalled checks that the clone of an instance that was installed from an ISO image starts by the same firmware, also once
// the drive is empty, and that the plan says what the clone has not.
func TestCloneOfInstalled(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.runUntil(l.job(l.intake.Import(ctx, "disc", "default",
		seedbed.ImportSpec{Path: drivertest.ISOFile(t), Firmware: seedbed.FirmwareUEFI}, usual)), seedbed.JobSucceeded)
	_, err := l.db.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: "web", Policy: seedbed.SoftAffinity})
	l.ok(err)
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Network: "default",
		Params: map[string]any{"cdrom": "disc", "disk": "8MiB", "tpm": true, "placement_group": "web"}}, nil)), seedbed.JobSucceeded)
	l.runUntil(l.set(seedbed.HardwareChange{CDROM: new("")}), seedbed.JobSucceeded)
	p, err := l.intake.PlanClone(ctx, seedbed.InDefault("web1"), seedbed.CloneRequest{Name: "web2"})
	notes := strings.Join(p.Notes, "\n")
	if err != nil || len(p.Problems) > 0 || !strings.Contains(notes, "in no placement group") || !strings.Contains(notes, "its TPM is empty") {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	l.runUntil(l.clone(seedbed.CloneRequest{}), seedbed.JobSucceeded)
	got := l.byName("web2")
	if spec, _ := l.hv.Spec(got.ID); spec.Firmware != seedbed.FirmwareUEFI || !spec.System.TPM || got.PlacementGroup != "" {
		t.Errorf("the clone is started by %q: %+v", spec.Firmware, got)
	}
}

// TestCloneFrozen checks that the guest whose disks are cloned is frozen for the snapshots as the request says, and never left frozen.
func TestCloneFrozen(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	of := l.written()
	l.runUntil(l.clone(seedbed.CloneRequest{Freeze: seedbed.FreezeAlways}), seedbed.JobRolledBack)
	l.notCloned(of)
	g := l.withGuestAgent(of)
	for _, c := range []struct {
		freeze seedbed.Freeze
		times  int
	}{{seedbed.FreezeNever, 0}, {"", 1}, {seedbed.FreezeAlways, 2}} {
		l.runUntil(l.clone(seedbed.CloneRequest{Freeze: c.freeze}), seedbed.JobSucceeded)
		l.cloned(of, "new")
		if now, times := g.Frozen(); now || times != c.times {
			t.Errorf("freeze %q: the guest was frozen %d times, and is now: %t", c.freeze, times, now)
		}
		l.runUntil(l.remove("web2"), seedbed.JobSucceeded)
	}
}
