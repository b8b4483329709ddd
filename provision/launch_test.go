package provision

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// TestProfileWithNICs checks what NICs the instances of a profile that lists them get: with security groups, rates and free secondary
// addresses of their own or of the profile, and with what a request has in their place.
func TestProfileWithNICs(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.otherNetwork()
	ctx := t.Context()
	for _, name := range []string{"db", "web", "own"} {
		_, err := l.db.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: name})
		l.ok(err)
	}
	p := seedbed.Profile{
		Name: "two", Image: "debian", VCPUs: 1, Memory: 256 * seedbed.MiB, Ready: seedbed.ReadyStarted,
		Params:         []seedbed.Param{{Name: "n", Type: seedbed.ParamInt, Default: defaultOf("1")}},
		Expressions:    map[string]string{"vcpus": `${profile.network == "other" ? 2 : 1}`},
		SecurityGroups: []string{"web"}, BandwidthOut: 20_000_000,
		NICs: []seedbed.NICRequest{
			{Network: "other", SecondaryCount: 2, Groups: []string{"db"}, BandwidthIn: 10_000_000}, {Network: "default", BandwidthOut: 30_000_000},
		},
	}
	l.ok(l.intake.CheckProfile(ctx, l.db, p))
	_, err := l.db.CreateProfile(ctx, p)
	l.ok(err)
	ask := func(action string, req seedbed.Request) seedbed.Request {
		req.Action, req.Name, req.Profile = action, "web1", "two"
		return req
	}
	type nic struct {
		Network   string
		Secondary int
		Groups    []string
		In, Out   seedbed.BitRate
	}
	read := func(all []seedbed.NIC) (got []nic) {
		for i, n := range all {
			if n.Index != i || !n.Addr.IsValid() {
				t.Errorf("NIC %d is %+v", i, n)
			}
			got = append(got, nic{n.Network, len(n.Secondary), n.Groups, n.BandwidthIn, n.BandwidthOut})
		}
		return got
	}
	own := []nic{{"other", 2, []string{"db"}, 10_000_000, 20_000_000}, {"default", 0, []string{"web"}, 0, 30_000_000}}

	plan, err := l.intake.Plan(ctx, ask(seedbed.DoPlan, seedbed.Request{}))
	l.ok(err)
	note := "NIC 0 gets secondary addresses that are free when the job is accepted: 2"
	if len(plan.Problems) > 0 || len(plan.NICs) != 2 || plan.VCPUs != 2 || !slices.Contains(plan.Notes, note) {
		t.Errorf("planned %+v", plan)
	}
	l.runUntil(l.job(l.intake.Submit(ctx, ask(seedbed.DoCreate, seedbed.Request{}), nil)), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	if d := cmp.Diff(own, read(inst.NICs)); d != "" {
		t.Error(d)
	}
	spec, _ := l.hv.Spec(inst.ID)
	served := l.guest(inst.ID).NICs
	if len(spec.NICs) != 2 || spec.NICs[0].Bridge != "sbother" || spec.NICs[1].Bridge != "seedbed0" || len(served) != 2 ||
		served[0].Network != "other" || !slices.Equal(served[0].Secondary, inst.NICs[0].Secondary) || served[1].Network != "default" {
		t.Errorf("the domain has %+v, and served is %+v", spec.NICs, served)
	}
	if inst.NICs[0].MAC == inst.NICs[1].MAC || inst.NICs[0].MAC == (seedbed.MAC{}) {
		t.Errorf("the MAC addresses are %s and %s", inst.NICs[0].MAC, inst.NICs[1].MAC)
	}

	// A change of the profile is for new instances, and a rebuild keeps the NICs.
	_, err = l.db.ChangeProfile(ctx, "two", func(p *seedbed.Profile) error { p.NICs[1].Groups = []string{"own"}; return nil })
	l.ok(err)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	again, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	if d := cmp.Diff(inst.NICs, again.NICs, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Error(d)
	}
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRemove, Name: "web1"}, nil)), seedbed.JobSucceeded)

	for name, tt := range map[string]struct {
		req  seedbed.Request
		want []nic
	}{
		"a network": {seedbed.Request{Network: "default"},
			[]nic{{"default", 2, []string{"db"}, 10_000_000, 20_000_000}, {"default", 0, []string{"own"}, 0, 30_000_000}}},
		"groups": {seedbed.Request{SecurityGroups: []string{"own", "web"}},
			[]nic{{"other", 2, []string{"own", "web"}, 10_000_000, 20_000_000}, {"default", 0, []string{"own", "web"}, 0, 30_000_000}}},
		"NICs": {seedbed.Request{NICs: []seedbed.NICRequest{{}, {Network: "default", Groups: []string{"own"}}, {SecondaryCount: 1}}},
			[]nic{{"other", 0, []string{"web"}, 0, 20_000_000}, {"default", 0, []string{"own"}, 0, 20_000_000},
				{"other", 1, []string{"web"}, 0, 20_000_000}}},
	} {
		l.runUntil(l.job(l.intake.Submit(ctx, ask(seedbed.DoCreate, tt.req), nil)), seedbed.JobSucceeded)
		inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
		l.ok(err)
		if d := cmp.Diff(tt.want, read(inst.NICs)); d != "" {
			t.Errorf("%s in the request: %s", name, d)
		}
		l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRemove, Name: "web1"}, nil)), seedbed.JobSucceeded)
	}
	if kept, err := l.db.Profile(ctx, "two"); err != nil || kept.NICs[0].Network != "other" || kept.NICs[0].Groups == nil {
		t.Errorf("the profile has %+v, %v", kept.NICs, err)
	}
}

// TestBootFrom checks what instances boot from: the network of NIC 0 if the profile or the request says so, and a rebuild keeps that.
func TestBootFrom(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.otherNetwork()
	ctx := t.Context()
	_, err := l.db.ChangeProfile(ctx, "small", func(p *seedbed.Profile) error {
		p.BootFrom, p.Network, p.NICs = seedbed.BootNetwork, "", []seedbed.NICRequest{{Network: "default"}, {Network: "other"}}
		return nil
	})
	l.ok(err)
	boots := func(network bool) {
		t.Helper()
		i, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
		l.ok(err)
		spec, _ := l.hv.Spec(i.ID)
		if (i.System.BootFrom == seedbed.BootNetwork) != network || len(spec.NICs) != 2 || spec.NICs[0].Boot != network || spec.NICs[1].Boot {
			t.Errorf("it boots from %q by %+v, want the network: %v", i.System.BootFrom, spec.NICs, network)
		}
	}
	create := func(params map[string]any) seedbed.JobID {
		return l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "small", Params: params}, nil))
	}
	note := "it boots from the network of NIC 0 first, and then from its first disk"
	for value, want := range map[string]bool{"": true, "network": true, "disk": false} {
		params := map[string]any{}
		if value != "" {
			params["boot_from"] = value
		}
		plan, err := l.intake.Plan(ctx, seedbed.Request{Action: seedbed.DoPlan, Name: "web1", Profile: "small", Params: params})
		if l.ok(err); slices.Contains(plan.Notes, note) != want || len(plan.Problems) > 0 {
			t.Errorf("%q: planned %+v", value, plan)
		}
		l.runUntil(create(params), seedbed.JobSucceeded)
		boots(want)
		l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
		boots(want)
		if value == "network" { // a NIC that is taken to another network is still booted from, and a rebuild can change it
			l.runUntil(l.onNIC(seedbed.DoNICSet, 0, seedbed.NICRequest{Network: "other"}), seedbed.JobSucceeded)
			i, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
			l.ok(err)
			spec, _ := l.hv.Spec(i.ID)
			if at := slices.IndexFunc(spec.NICs, func(n seedbed.DomainNIC) bool { return n.MAC == i.NICs[0].MAC }); at < 0 || !spec.NICs[at].Boot {
				t.Errorf("the domain has %+v", spec.NICs)
			}
			l.runUntil(l.ask(seedbed.DoRebuild, map[string]any{"boot_from": "disk"}), seedbed.JobSucceeded)
			boots(false)
		}
		l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	}
	for _, wrong := range []any{"floppy", "", 1} {
		_, err := l.intake.Submit(ctx, seedbed.Request{
			Action: seedbed.DoCreate, Name: "web1", Profile: "small", Params: map[string]any{"boot_from": wrong}}, nil)
		l.want("a wrong value", err, seedbed.ErrInvalid)
	}
}
