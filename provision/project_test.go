package provision

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// withProject adds the project "acme".
func (l *lab) withProject() *lab {
	l.t.Helper()
	_, err := l.db.CreateProject(l.t.Context(), seedbed.Project{Name: "acme"})
	l.ok(err)
	all, err := l.db.ListProfiles(l.t.Context(), seedbed.ProfileQuery{Scope: seedbed.AllProjects()})
	l.ok(err)
	for _, p := range all {
		l.publish(p.Name, "acme")
	}
	return l
}

// publish publishes a profile to these projects only.
func (l *lab) publish(profile string, projects ...string) {
	l.t.Helper()
	_, err := l.db.PublishProfile(l.t.Context(), profile, seedbed.Publication{Projects: projects})
	l.ok(err)
}

// web1 returns the instance "web1" of a project, and expects that its domain runs from its volumes.
func (l *lab) web1(project string) seedbed.Instance {
	l.t.Helper()
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.Named(project, "web1"))
	l.ok(err)
	l.runsFrom(inst)
	if spec, _ := l.hv.Spec(inst.ID); spec.Name != inst.FullName().String() || spec.Project != project {
		l.t.Errorf("the domain of web1 in %s is called %q and is tagged with the project %q", project, spec.Name, spec.Project)
	}
	volumes, err := l.pool.Volumes(l.t.Context())
	l.ok(err)
	for _, v := range volumes {
		if v.Instance == inst.ID && v.Project != project {
			l.t.Errorf("volume %s of web1 in %s is tagged with the project %q", v.Name, project, v.Project)
		}
	}
	return inst
}

// in asks for an action on web1 of a project.
func (l *lab) in(project, action string) seedbed.JobID {
	l.t.Helper()
	req := seedbed.Request{Action: action, Project: project, Name: "web1", Params: map[string]any{"force": true}}
	if action == seedbed.DoCreate || action == seedbed.DoStart || action == seedbed.DoRemove {
		req.Params = nil
	}
	if action == seedbed.DoCreate {
		req.Profile, req.Arguments = "web", []string{}
	}
	return l.job(l.intake.Submit(l.t.Context(), req, nil))
}

// settled is web1 once its guest has asked for its user-data. A job with a script does not wait for that.
func (l *lab) settled(project string) seedbed.Instance {
	l.t.Helper()
	l.eventually("web1 in "+project+" asks for its user-data", func() bool { return !l.web1(project).Fetched.IsZero() })
	return l.web1(project)
}

// volumesOf returns the names of an instance's volumes.
func volumesOf(i seedbed.Instance) (names []string) {
	for _, v := range i.Volumes {
		names = append(names, v.Name)
	}
	return names
}

// TestOneNameInTwoProjects makes two instances of one name by a script, each in a project. Every job
// on one leaves the other as it is.
func TestOneNameInTwoProjects(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps()).withProject()
	ctx := t.Context()
	_, err := l.db.CreateNetworkTemplate(ctx, "plain", "") // without a MAC address made from the name
	l.ok(err)
	l.addNetwork("plain", "default")
	l.addNetwork("plain", "200")
	_, err = l.db.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.NetworkTemplate = "plain"; return nil })
	l.ok(err)
	for _, project := range []string{seedbed.DefaultProject, "acme"} {
		l.runUntil(l.in(project, seedbed.DoCreate), seedbed.JobSucceeded)
	}
	ours, theirs := l.settled(seedbed.DefaultProject), l.settled("acme")
	if d := cmp.Diff([]string{"web1_sda", "web1_sdb"}, volumesOf(ours)); d != "" {
		t.Errorf("volumes in %s (-want +got):\n%s", ours.Project, d)
	}
	if d := cmp.Diff([]string{"web1.acme_sda", "web1.acme_sdb"}, volumesOf(theirs)); d != "" {
		t.Errorf("volumes in %s (-want +got):\n%s", theirs.Project, d)
	}
	starts := l.host.scripts.Starts()
	if len(starts) != 2 || starts[0].Name != "web1" || starts[1].Name != "web1.acme" || starts[1].Number != "1" {
		t.Errorf("scripts began with %+v", starts)
	}
	if _, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Project: "acme", Name: "web1", Profile: "web",
		Arguments: []string{}}, nil); !errors.Is(err, seedbed.ErrExists) {
		t.Errorf("a second web1 of a project: %v", err)
	}

	// What happens to theirs.
	unchanged := func(what string) {
		t.Helper()
		if d := cmp.Diff(ours, l.web1(seedbed.DefaultProject), byValue); d != "" {
			t.Errorf("web1 in default after %s of the other (-before +after):\n%s", what, d)
		}
	}
	for _, action := range []string{seedbed.DoStop, seedbed.DoStart, seedbed.DoReboot, seedbed.DoRebuild} {
		l.runUntil(l.in("acme", action), seedbed.JobSucceeded)
		unchanged(action)
	}
	rebuilt := l.settled("acme")
	if len(rebuilt.Volumes) != 2 || rebuilt.ID != theirs.ID || !strings.HasPrefix(rebuilt.Volumes[0].Name, "web1.acme_sda-") {
		t.Errorf("rebuilt %+v", rebuilt)
	}
	named := seedbed.Named("acme", "web1")
	l.runUntil(l.job(l.intake.Snapshot(ctx, named, "s1", "", usual)), seedbed.JobSucceeded)
	l.snapshots(rebuilt, "s1")
	l.snapshots(ours)
	l.runUntil(l.job(l.intake.RemoveSnapshot(ctx, named, "s1", usual)), seedbed.JobSucceeded)
	unchanged("a snapshot")

	// Removing one leaves the other, and frees the name in its project only.
	l.runUntil(l.in(seedbed.DefaultProject, seedbed.DoRemove), seedbed.JobSucceeded)
	if d := cmp.Diff(rebuilt, l.web1("acme"), byValue); d != "" {
		t.Errorf("web1 in acme after the removal of the other (-before +after):\n%s", d)
	}
	l.runUntil(l.in("acme", seedbed.DoRemove), seedbed.JobSucceeded)
	volumes, err := l.pool.Volumes(ctx)
	l.ok(err)
	domains, err := l.hv.Domains(ctx)
	l.ok(err)
	if len(volumes) != 0 || len(domains) != 0 {
		t.Errorf("left behind: volumes %v, domains %v", volumes, domains)
	}
}

// TestProjectOrphan checks that a domain of another project that is left behind is called by its
// name, and that the cleanup has it undone.
func TestProjectOrphan(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata).withProject()
	l.runUntil(l.create("web1"), seedbed.JobSucceeded)
	mend := l.broken("StartDomain", "UndefineDomain")
	id := l.job(l.intake.Submit(t.Context(),
		seedbed.Request{Action: seedbed.DoCreate, Project: "acme", Name: "web1", Profile: "small"}, nil))
	l.runUntil(id, seedbed.JobIncomplete)
	if d := cmp.Diff([]string{"web1.acme define domain  web1.acme"}, l.orphans()); d != "" {
		t.Errorf("left behind (-want +got):\n%s", d)
	}
	mend()
	if d := cmp.Diff([]string{"undo web1.acme"}, l.cleanAfter(11*time.Minute, false)); d != "" {
		t.Errorf("undone (-want +got):\n%s", d)
	}
	l.runUntil(id, seedbed.JobRolledBack)
	if got := l.orphans(); got != nil {
		t.Errorf("left behind at last: %q", got)
	}
	l.up("web1")
}

// TestForeignNameOfAProject checks that a domain without Seedbed's tag is not taken for an instance
// of another project because of its name, and is not adopted under it.
func TestForeignNameOfAProject(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).withProject()
	ctx := t.Context()
	l.pool.AddForeign("old")
	stranger := seedbed.NewInstanceID()
	l.hv.AddForeignMachine(stranger, "web1.acme", "/memory/old.qcow2", seedbed.NewMAC(), "seedbed0")
	before := l.foreign("web1.acme")
	_, err := l.intake.Adopt(ctx, before, seedbed.AdoptRequest{}, usual)
	l.want("adopt web1.acme", err, seedbed.ErrInvalid)
	id := l.job(l.intake.Submit(ctx,
		seedbed.Request{Action: seedbed.DoCreate, Project: "acme", Name: "web1", Profile: "small"}, nil))
	job := l.runUntil(id, seedbed.JobRolledBack)
	if want := fmt.Sprintf("domain web1.acme (%s) exists and is not this instance's", stranger); !strings.Contains(job.Error, want) {
		t.Errorf("error %q, want %q", job.Error, want)
	}
	if d := cmp.Diff(before, l.foreign("web1.acme"), byValue); d != "" {
		t.Errorf("the domain (-before +after):\n%s", d)
	}

	// An instance of acme that is forgotten keeps its domain's name, which adoption refuses too.
	l.hv.Forget(stranger)
	l.runUntil(l.job(l.intake.Submit(ctx,
		seedbed.Request{Action: seedbed.DoCreate, Project: "acme", Name: "web1", Profile: "small"}, nil)), seedbed.JobSucceeded)
	l.runUntil(l.job(l.intake.Forget(ctx, seedbed.Named("acme", "web1"), usual)), seedbed.JobSucceeded)
	all, err := l.hv.ForeignDomains(ctx)
	l.ok(err)
	if !slices.ContainsFunc(all, func(f seedbed.ForeignDomain) bool { return f.Name == "web1.acme" }) {
		t.Errorf("the foreign domains are %+v: want web1.acme among them", all)
	}
}
