package provision

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/intake"
	"seedbed/store"
)

// TestPlanComposed checks that a plan of a profile with a script lists its disks, its NICs with the
// MACs that the template fixes, and the stages, and writes nothing.
func TestPlanComposed(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	p, err := l.intake.Plan(t.Context(), seedbed.Request{Name: "web3", Profile: "web"})
	l.ok(err)
	if len(p.Problems) > 0 || p.VCPUs != 2 || p.Memory != 512*seedbed.MiB || p.Node != testNode || p.Script != "" {
		t.Errorf("plan %+v", p)
	}
	if d := cmp.Diff([]string{"volumes", "define", "publish", "start", "ready"}, p.Stages); d != "" {
		t.Errorf("stages (-want +got):\n%s", d)
	}
	if len(p.Volumes) != 2 || p.Volumes[0].Image != "debian" || p.Volumes[1].Size != seedbed.GiB ||
		p.Volumes[1].Image != "" || p.Volumes[0].Name != "" {
		t.Errorf("volumes %+v", p.Volumes)
	}
	if len(p.NICs) != 2 || p.NICs[0].MAC.String() != "52:54:01:00:30:00" ||
		p.NICs[1].MAC.String() != "52:54:01:00:30:10" || !p.NICs[0].Addr.IsValid() || p.NICs[1].Network != "200" {
		t.Errorf("NICs %+v", p.NICs)
	}
	if _, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web3")); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("the plan made an instance: %v", err)
	}
	l.runUntil(l.compose("web3", true), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web3"))
	l.ok(err)
	for i, nic := range inst.NICs {
		if nic.MAC != p.NICs[i].MAC || nic.Addr != p.NICs[i].Addr {
			t.Errorf("NIC %d is %v, and was planned as %v", i, nic, p.NICs[i])
		}
	}
	p, err = l.intake.Plan(t.Context(), seedbed.Request{Name: "web3", Profile: "web"})
	if err != nil || !strings.Contains(strings.Join(p.Problems, ";"), `instance "web3" exists already`) {
		t.Errorf("a name that is taken: %q, %v", p.Problems, err)
	}
}

// TestPlanScripted checks that a plan of a scripted profile names the script and its stages.
func TestPlanScripted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	held := true
	p, err := l.intake.Plan(t.Context(), seedbed.Request{Name: "web1", Profile: "web", Hold: &held})
	l.ok(err)
	want := []string{"collect", "verify", "prepare-script", "setup", "create", "prepare", "install",
		"cleanup", "general-cleanup", "publish", "start", "finish"}
	if d := cmp.Diff(want, p.Stages); d != "" || p.Script != "build" || len(p.Problems) > 0 {
		t.Errorf("script %q, problems %q, stages (-want +got):\n%s", p.Script, p.Problems, d)
	}
	notes := strings.Join(p.Notes, "\n")
	for _, says := range []string{"script build (revision ", "disk sda is for the script to make: ext4 /", "defined and left off"} {
		if !strings.Contains(notes, says) {
			t.Errorf("notes without %q:\n%s", says, notes)
		}
	}
	if len(p.Volumes) != 1 || p.Volumes[0].Size != seedbed.GiB {
		t.Errorf("volumes %+v", p.Volumes)
	}
}

// stray is a store whose profiles refer to what no longer exists.
type stray struct{ *store.DB }

func (s stray) Parts(ctx context.Context, profile string, names seedbed.PartNames) (seedbed.Parts, error) {
	c, err := s.DB.Parts(ctx, profile, names)
	c.Network.Networks = append(c.Network.Networks, seedbed.TemplateNetwork{VNI: "999"})
	c.Storage.Disks = append(c.Storage.Disks, seedbed.TemplateDisk{Name: "sdx", Pool: "default", Source: "gone"})
	return c, err
}

// TestPlanComposedProblems checks that all problems of a profile are reported at once.
func TestPlanComposedProblems(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	ctx := t.Context()
	l.intake = NewIntake(stray{l.db}, intake.Serving{Node: testNode, Pools: []string{"default"}})
	_, err := l.intake.Import(ctx, "coming", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)
	l.ok(err)
	l.addDisk("root", seedbed.TemplateDisk{Name: "sdc", Pool: "slow", Size: seedbed.GiB})
	l.addDisk("root", seedbed.TemplateDisk{Name: "sdd", Pool: "default", Source: "coming"})
	l.addDisk("root",
		seedbed.TemplateDisk{Name: "sde", Pool: "default", Size: seedbed.GiB, Filesystem: "ext4", Mountpoint: "/"})
	p, err := l.intake.Plan(ctx, seedbed.Request{Name: "web1", Profile: "web"})
	l.ok(err)
	problems := strings.Join(p.Problems, "\n")
	for _, says := range []string{`pool "slow" is not present`, `image "coming" is importing`,
		"default/gone could not be found", `VNI "999" is not present`, `needs its script "empty", which is empty`} {
		if strings.Count(problems, says) != 1 {
			t.Errorf("problems without %q, or with it twice:\n%s", says, problems)
		}
	}
	p, err = l.intake.Plan(ctx, seedbed.Request{Name: "web1", Profile: "nothing"})
	if err != nil || len(p.Problems) != 1 || !strings.Contains(p.Problems[0], `profile "nothing" does not exist`) {
		t.Errorf("no such profile: %q, %v", p.Problems, err)
	}
}

// TestFreshAndOptions checks that a request's values for a new instance apply with and without a
// script, and so do its job options.
func TestFreshAndOptions(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	yes := true
	first := l.create("web1")
	for _, profile := range []string{"small", "web"} {
		name := "new" + profile
		receipt, err := l.intake.Submit(t.Context(), seedbed.Request{
			Action: seedbed.DoCreate, Name: name, Profile: profile, Hold: &yes, Protected: &yes,
			JobOptions: seedbed.JobOptions{OnFailure: seedbed.OnFailure{Policy: seedbed.FailKeep}, Priority: 7, After: seedbed.JobID(first.Short())},
		}, nil)
		l.ok(err)
		inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault(name))
		l.ok(err)
		job, err := l.db.Job(t.Context(), receipt.Job)
		l.ok(err)
		want := seedbed.JobOptions{OnFailure: seedbed.OnFailure{Policy: seedbed.FailKeep}, Priority: 7, After: first}
		if !inst.Held || !inst.Protected || job.JobOptions != want || !job.Blocked {
			t.Errorf("%s: held %v, protected %v, job %+v", profile, inst.Held, inst.Protected, job.JobOptions)
		}
	}
	for name, test := range map[string]struct {
		req  seedbed.Request
		says string
	}{
		"no such job":   {seedbed.Request{Profile: "small", JobOptions: seedbed.JobOptions{After: "0123abcd"}}, "does not exist"},
		"no job at all": {seedbed.Request{Profile: "small", JobOptions: seedbed.JobOptions{After: "x"}}, "is not a job"},
		"said twice": {seedbed.Request{Profile: "small", Hold: &yes, Params: map[string]any{"hold": false}},
			"hold is set both in the request and in its params"},
	} {
		test.req.Action, test.req.Name = seedbed.DoCreate, "web9"
		if _, err := l.intake.Submit(t.Context(), test.req, nil); !errors.Is(err, seedbed.ErrInvalid) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
