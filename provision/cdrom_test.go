package provision

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/intake"
	"seedbed/provision/record"
	"seedbed/provision/worker/drivertest"
)

// TestCDROM checks that the CD-ROM of an instance is there before its first start, has what the metadata service would serve,
// is made again at each start, and goes with the domain.
func TestCDROM(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	ctx := t.Context()
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: "create", Name: "web1", Profile: "small",
		Params: map[string]any{"metadata_by": "cdrom", "user_data": "#cloud-config\n", "vendor_data": "#cloud-config\n{}\n"}}, nil)),
		seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	if inst.Ready != seedbed.ReadyStarted || inst.Datasource != seedbed.DatasourceNoCloud || inst.ID.AnnouncesEC2() {
		t.Errorf("ready %s, datasource %s, UUID %s", inst.Ready, inst.Datasource, inst.ID)
	}
	spec, _ := l.hv.Spec(inst.ID)
	if !spec.CDROM {
		t.Error("the domain has no CD-ROM")
	}
	has := func(file, want string) {
		t.Helper()
		if got := l.hv.Seed(inst.ID)[file]; !strings.Contains(got, want) {
			t.Errorf("%s is %q, which does not have %q", file, got, want)
		}
	}
	has("meta-data", `local-hostname: "web1"`)
	has("user-data", "#cloud-config\n")
	has("vendor-data", "{}")
	has("network-config", inst.NICs[0].MAC.String())
	if got := l.hv.Seed(inst.ID)["user-data"]; strings.Contains(got, "phone_home") {
		t.Errorf("user-data has a place to report to that the guest does not reach: %s", got)
	}
	changed, err := l.db.ChangeInstance(ctx, inst.FullName(), func(i *seedbed.Instance) error {
		i.NICs[0].Secondary = []netip.Addr{{}} // a free one
		return nil
	}, record.Renderer{}.Of)
	l.ok(err)
	second := changed.NICs[0].Secondary[0].String() + "/"
	if got := l.hv.Seed(inst.ID)["network-config"]; strings.Contains(got, second) {
		t.Errorf("the CD-ROM of a guest that runs has what came later: %s", got)
	}
	l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobSucceeded)
	has("network-config", second)

	_, err = l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1",
		Params: map[string]any{"metadata_by": "service"}}, nil)
	l.want("a rebuild for the service", err, seedbed.ErrInvalid)
	l.runUntil(l.ask(seedbed.DoRebuild, map[string]any{"user_data": "rebuilt"}), seedbed.JobSucceeded)
	now := l.rebuilt(changed)
	if spec, _ = l.hv.Spec(inst.ID); !spec.CDROM || now.Datasource != seedbed.DatasourceNoCloud || now.Ready != seedbed.ReadyStarted {
		t.Errorf("after a rebuild: CD-ROM %t, datasource %s, ready %s", spec.CDROM, now.Datasource, now.Ready)
	}
	has("user-data", "rebuilt")
	l.runUntil(l.ask("remove", nil), seedbed.JobSucceeded)
	if l.hv.Seed(inst.ID) != nil {
		t.Error("the CD-ROM outlives the domain")
	}
}

// TestCDROMUndone checks that nothing is left of the CD-ROM of an instance whose guest could not be started.
func TestCDROMUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	made := false
	l.hv.Fail(func(_ context.Context, effect string, point drivertest.Point) error {
		made = made || effect == "SeedDomain" && point == drivertest.After
		if effect == "StartDomain" {
			return seedbed.Errorf(seedbed.ErrInvalid, "no")
		}
		return nil
	})
	job := l.runUntil(l.job(l.intake.Submit(t.Context(), seedbed.Request{Action: "create", Name: "web1", Profile: "small",
		Params: map[string]any{"metadata_by": "cdrom"}}, nil)), seedbed.JobRolledBack)
	if left := l.hv.Seed(job.Instance); !made || left != nil {
		t.Errorf("made %t, left: %v", made, left)
	}
}

// TestCDROMRefused checks what cannot be with metadata by CD-ROM.
func TestCDROMRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	for want, req := range map[string]seedbed.Request{
		"expected service or cdrom":        {Params: map[string]any{"metadata_by": "floppy"}},
		"which cloud-init reads as":        {Params: map[string]any{"metadata_by": "cdrom", "datasource": "ec2"}},
		"datasource none":                  {Params: map[string]any{"metadata_by": "cdrom", "datasource": "none"}},
		"nothing is heard of it: expected": {Params: map[string]any{"metadata_by": "cdrom"}, Ready: seedbed.ReadyMetadata},
	} {
		req.Action, req.Name, req.Profile = seedbed.DoCreate, "web1", "small"
		_, err := l.intake.Submit(t.Context(), req, nil)
		l.want(want, err, seedbed.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestScriptOfDirect checks that no script makes the domain of an instance with a NIC in a direct network: neither of a new one, nor of
// one that is rebuilt, whose first NIC reaches the service.
func TestScriptOfDirect(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	ctx := t.Context()
	_, err := l.db.CreateNetwork(ctx, seedbed.Network{Name: "lab", Kind: seedbed.NetworkDirect, Bridge: "lab0", MAC: seedbed.NewMAC(),
		Uplink: "eth1", NetworkOptions: seedbed.NetworkOptions{Mode: seedbed.DirectBridge}})
	l.ok(err)
	nics := []seedbed.NICRequest{{Network: "default"}, {Network: "lab"}}
	_, err = l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "small", NICs: nics}, nil)
	l.ok(err)
	rebuild := seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Profile: "web"}
	_, err = l.intake.Submit(ctx, rebuild, nil)
	plan, planErr := l.intake.Plan(ctx, rebuild)
	l.ok(planErr)
	const want = "NIC 1 is in the direct network lab, and the script of profile web makes the domain"
	if l.want("a rebuild", err, seedbed.ErrInvalid); err == nil || !strings.Contains(err.Error(), want) ||
		len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0], want) {
		t.Errorf("a rebuild: %v, %v; want %s", err, plan.Problems, want)
	}
	l.addNetwork("lan", "lab")
	_, err = l.asPVC(ctx, seedbed.Request{Name: "web2", Profile: "web"})
	if l.want("a new one", err, seedbed.ErrInvalid); err == nil || !strings.Contains(err.Error(), "the direct network lab, and the script") {
		t.Errorf("a new one: %v", err)
	}
}

// TestCDROMTooLarge checks that documents that a CD-ROM has no room for are refused before there is a job, while the service serves
// them, and that a guest that follows its profile keeps those that it has.
func TestCDROMTooLarge(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.serve(func(s *intake.Serving) { s.MaxUserData = seedbed.MaxDocument })
	ctx := t.Context()
	text := func(size seedbed.Bytes) string { return "#cloud-config\n" + strings.Repeat("#", int(size)) }
	template := templateHead + strings.Repeat("${param.x}", 1100)
	ask := func(action, by string, params map[string]any) seedbed.Request {
		params["metadata_by"] = by
		return seedbed.Request{Action: action, Name: "web1", Profile: "small", Params: params}
	}
	refused := func(what string, err error) {
		t.Helper()
		if l.want(what, err, seedbed.ErrInvalid); err != nil && !strings.Contains(err.Error(), "expected at most 4MiB together") {
			t.Errorf("%s: %v", what, err)
		}
	}
	submit := func(req seedbed.Request) error {
		_, err := l.intake.Submit(ctx, req, nil)
		return err
	}
	for name, params := range map[string]map[string]any{
		"user-data": {"user_data": text(6 * seedbed.MiB)},
		"both":      {"user_data": text(3 * seedbed.MiB), "vendor_data": text(3 * seedbed.MiB)},
		"template":  {"user_data": template, "x": strings.Repeat("x", 4096)},
	} {
		refused(name, submit(ask(seedbed.DoCreate, "cdrom", params)))
	}
	plan, err := l.intake.Plan(ctx, ask(seedbed.DoCreate, "cdrom", map[string]any{"user_data": text(6 * seedbed.MiB)}))
	if l.ok(err); len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0], "4MiB together") {
		t.Errorf("the dry run says %v", plan.Problems)
	}
	served := ask(seedbed.DoCreate, "service", map[string]any{"user_data": text(6 * seedbed.MiB)})
	served.Name = "web2"
	l.ok(submit(served))

	small := text(seedbed.KiB)
	change := func(text string) {
		t.Helper()
		_, err := l.db.ChangeProfile(ctx, "small", func(p *seedbed.Profile) error {
			p.UserData, p.Follow = []byte(text), seedbed.FollowLive
			return nil
		})
		l.ok(err)
	}
	change(small)
	l.runUntil(l.job(l.intake.Submit(ctx, ask(seedbed.DoCreate, "cdrom", map[string]any{}), nil)), seedbed.JobSucceeded)
	change(text(6 * seedbed.MiB))
	refused("a rebuild", submit(seedbed.Request{Action: seedbed.DoRebuild, Name: "web1"}))
	n, err := intake.NewFollower(l.db, l.intake, l.db.Revised, slog.New(slog.DiscardHandler)).Once(ctx)
	l.ok(err)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	if l.ok(err); n != 1 || string(inst.UserData) != small {
		t.Errorf("%d were due, and the user-data has now %d bytes", n, len(inst.UserData))
	}
	l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobSucceeded)
	if got := l.hv.Seed(inst.ID)["user-data"]; got != small {
		t.Errorf("the CD-ROM has user-data of %d bytes", len(got))
	}
}
