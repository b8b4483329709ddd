package provision

import (
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/intake"
)

// launch makes the instance web1 from the image debian, without a profile.
func (l *lab) launch(ready seedbed.Ready, params map[string]any) seedbed.Instance {
	l.t.Helper()
	l.serve(func(s *intake.Serving) { s.Network = "default" })
	req := seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Image: "debian", Ready: ready, Params: params}
	l.runUntil(l.job(l.intake.Submit(l.t.Context(), req, nil)), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	return inst
}

// TestLaunch checks what an instance is that is made from an image, and that a rebuild makes the
// same again.
func TestLaunch(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	was := l.launch(seedbed.ReadyReport, map[string]any{"user_data": "#cloud-config\nruncmd: [own]\n", "tags": map[string]any{"a": "b"}})
	if was.Profile != "" || was.Image != "debian" || was.VCPUs != 1 || was.Memory != seedbed.GiB || was.Volumes[0].Size != 10*seedbed.GiB ||
		was.NICs[0].Network != "default" || was.Ready != seedbed.ReadyReport || was.Tags["a"] != "b" {
		t.Errorf("instance %+v", was)
	}
	plan, err := l.intake.Plan(t.Context(), seedbed.Request{Action: seedbed.DoRebuild, Name: "web1"})
	if err != nil || len(plan.Problems) > 0 || plan.Image != "debian" || plan.Profile != "" {
		t.Errorf("plan of a rebuild: %+v, %v", plan, err)
	}
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	now := l.rebuilt(was)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	now = l.rebuilt(now)
	if now.Profile != "" || now.Image != "debian" || now.Volumes[0].Size != was.Volumes[0].Size {
		t.Errorf("rebuilt: %+v", now)
	}
	if parts := mimeParts(t, now.UserData); len(parts) != 2 || !strings.Contains(parts[0], "own") ||
		!strings.Contains(parts[1], now.ReportToken) {
		t.Errorf("rebuilt with the user-data %q", parts)
	}
	l.runUntil(l.ask(seedbed.DoRebuild, map[string]any{"user_data_base64": "IyEvYmluL3NoCg=="}), seedbed.JobSucceeded)
	now = l.rebuilt(now)
	if parts := mimeParts(t, now.UserData); parts[0] != "#!/bin/sh\n" {
		t.Errorf("rebuilt with other user-data: %q", parts)
	}
	l.runUntil(l.job(l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Profile: "small"}, nil)),
		seedbed.JobSucceeded)
	if now = l.rebuilt(now); now.Profile != "small" || len(now.Params) > 0 {
		t.Errorf("rebuilt from a profile: %+v", now)
	}
}

// TestLaunchRefused checks what says nothing of an instance, or too much.
func TestLaunchRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.serve(func(s *intake.Serving) { s.Network = "default" })
	for want, req := range map[string]seedbed.Request{
		"profile is missing":                                {},
		"profile small and image debian are both given":     {Profile: "small", Image: "debian"},
		`image "none" does not exist`:                       {Image: "none"},
		`image name "../x"`:                                 {Image: "../x"},
		`network "none" does not exist; there are: default`: {Image: "debian", Network: "none"},
		`network name "a b"`:                                {Profile: "small", Network: "a b"},
		"disk is 512, but image debian has":                 {Image: "debian", Params: map[string]any{"disk": "512"}},
		"there is no profile to follow":                     {Image: "debian", Params: map[string]any{"userdata": "live"}},
		`ready "soon" is unknown`:                           {Image: "debian", Ready: "soon"},
	} {
		req.Action, req.Name = seedbed.DoCreate, "web1"
		_, err := l.intake.Submit(t.Context(), req, nil)
		l.want(want, err, seedbed.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoStart, Name: "web1", Network: "default"}, nil)
	l.want("start on a network", err, seedbed.ErrInvalid)
}
