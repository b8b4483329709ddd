package provision

import (
	"strings"
	"testing"

	"seedbed"
)

// TestPlan checks that a plan says what a create would make and what prevents it, and writes
// nothing.
func TestPlan(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	in := l.intake
	got, err := in.Plan(t.Context(), seedbed.Request{Name: "web1", Profile: "small", Params: map[string]any{"vcpus": 3}})
	if err != nil || len(got.Problems) != 0 || got.VCPUs != 3 || len(got.Volumes) != 1 ||
		got.Volumes[0].Name != "" || len(got.NICs) != 1 || !got.NICs[0].Addr.IsValid() {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1")); err == nil {
		t.Error("the plan made an instance")
	}
	receipt, err := in.Submit(t.Context(), seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "small"}, nil)
	if err != nil || receipt.Job == "" {
		t.Fatal(err)
	}
	if i, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1")); err != nil || i.NICs[0].Addr != got.NICs[0].Addr {
		t.Errorf("the instance got %v (%v), the plan %v", i.NICs, err, got.NICs)
	}
	for name, test := range map[string]struct {
		req  seedbed.Request
		says string
	}{
		"name taken":    {seedbed.Request{Name: "web1", Profile: "small"}, "exists already"},
		"bad name":      {seedbed.Request{Name: "Web_1", Profile: "small"}, "host name"},
		"no profile":    {seedbed.Request{Name: "web2", Profile: "none"}, `"none"`},
		"bad parameter": {seedbed.Request{Name: "web2", Profile: "small", Params: map[string]any{"evil": 1}}, "evil"},
	} {
		got, err := in.Plan(t.Context(), test.req)
		if err != nil || !strings.Contains(strings.Join(got.Problems, ";"), test.says) {
			t.Errorf("%s: %q, %v, want %q", name, got.Problems, err, test.says)
		}
	}
}

// TestStopAndStart checks that jobs switch an instance off and on again, and that its state
// follows.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.runUntil(l.create("web1"), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	for _, step := range []struct {
		action string
		state  seedbed.InstanceState
		domain seedbed.DomainState
	}{{seedbed.DoStop, seedbed.InstanceStopped, seedbed.DomainOff}, {seedbed.DoStart, seedbed.InstanceRunning, seedbed.DomainRunning},
		{seedbed.DoStart, seedbed.InstanceRunning, seedbed.DomainRunning}} {
		receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: step.action, Name: "web1"}, nil)
		l.ok(err)
		l.runUntil(receipt.Job, seedbed.JobSucceeded)
		after, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
		l.ok(err)
		domains, _ := l.hv.Domains(t.Context())
		if after.State != step.state || len(domains) != 1 || domains[0].State != step.domain || after.NICs[0].Addr != inst.NICs[0].Addr {
			t.Errorf("%s: instance %s, domains %v", step.action, after.State, domains)
		}
	}
	for name, req := range map[string]seedbed.Request{
		"unknown":         {Action: seedbed.DoStop, Name: "web2"},
		"another profile": {Action: seedbed.DoStop, Name: "web1", Profile: "big"},
		"params":          {Action: seedbed.DoStart, Name: "web1", Params: map[string]any{"vcpus": 2}},
	} {
		if receipt, err := l.intake.Submit(t.Context(), req, nil); err == nil {
			t.Errorf("%s: job %s", name, receipt.Job)
		}
	}
}
