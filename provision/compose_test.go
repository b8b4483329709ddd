package provision

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/intake"
)

// withProvisioner adds the parts of a provisioner profile "web": two NICs with a MAC template, a
// clone and a blank disk, and user-data.
func (l *lab) withProvisioner() *lab {
	l.t.Helper()
	return l.withProfile(seedbed.ReadyStarted).withTemplates()
}

// withTemplates is withProvisioner for a lab that has the profile "small".
func (l *lab) withTemplates() *lab {
	l.t.Helper()
	ctx := l.t.Context()
	_, err := l.db.CreateNetwork(ctx, seedbed.Network{
		Name: "200", Bridge: "br200", MAC: seedbed.NewMAC(), Prefix: netip.MustParsePrefix("10.8.0.0/24"),
		Gateway: netip.MustParseAddr("10.8.0.1"),
	})
	l.ok(err)
	_, err = l.db.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: "small", VCPUs: 2, Memory: 512 * seedbed.MiB})
	l.ok(err)
	_, err = l.db.CreateNetworkTemplate(ctx, "lan", "{prefix}:00:{vmid}0:{netid}0")
	l.ok(err)
	_, err = l.db.CreateStorageTemplate(ctx, "root")
	l.ok(err)
	_, err = l.db.CreateUserData(ctx, "cloud", "#cloud-config\n{}\n")
	l.ok(err)
	l.addNetwork("lan", "default")
	l.addNetwork("lan", "200")
	l.addDisk("root", seedbed.TemplateDisk{Name: "sdb", Pool: "default", Size: seedbed.GiB})
	l.addDisk("root", seedbed.TemplateDisk{Name: "sda", Pool: "default", Source: "debian"})
	p := seedbed.NewScripted("web", seedbed.Empty)
	p.System, p.NetworkTemplate, p.Storage, p.Document = "small", "lan", "root", "cloud"
	_, err = l.db.CreateProfile(ctx, p)
	l.ok(err)
	return l
}

func (l *lab) compose(name string, start bool) seedbed.JobID {
	l.t.Helper()
	receipt, err := l.asPVC(l.t.Context(), seedbed.Request{Name: name, Profile: "web", Off: !start})
	l.ok(err)
	return receipt.Job
}

// asPVC requests an instance as PVC's clients do.
func (l *lab) asPVC(ctx context.Context, req seedbed.Request) (seedbed.Receipt, error) {
	req.Action, req.Arguments = seedbed.DoCreate, append([]string{}, req.Arguments...)
	return l.intake.Submit(ctx, req, nil)
}

func TestCompositionRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	job := l.runUntil(l.compose("web3", true), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web3"))
	l.ok(err)
	if inst.State != seedbed.InstanceRunning || inst.Held || inst.VCPUs != 2 || inst.Memory != 512*seedbed.MiB || inst.Profile != "web" ||
		inst.Image != "debian" || string(inst.UserData) != "#cloud-config\n{}\n" || inst.Metadata.InstanceID != seedbed.InstanceIDUUID {
		t.Errorf("made %+v", inst)
	}
	spec, _ := l.hv.Spec(inst.ID)
	if len(spec.NICs) != 2 || spec.NICs[0].Bridge != "seedbed0" || spec.NICs[0].MAC.String() != "52:54:01:00:30:00" ||
		spec.NICs[1].Bridge != "br200" || spec.NICs[1].MAC.String() != "52:54:01:00:30:10" {
		t.Errorf("NICs %+v", spec.NICs)
	}
	if len(spec.Disks) != 2 || len(inst.Volumes) != 2 || inst.Volumes[0].Image != "debian" ||
		inst.Volumes[1].Image != "" || inst.Volumes[1].Size != seedbed.GiB {
		t.Errorf("disks %+v, volumes %+v", spec.Disks, inst.Volumes)
	}
	if d, err := l.hv.DomainState(t.Context(), inst.ID); err != nil || d.State != seedbed.DomainRunning {
		t.Errorf("domain %+v, %v", d, err)
	}
	if string(job.Spec) != `{"profile":"web","revision":1,"start":true}` {
		t.Errorf("spec %s", job.Spec)
	}
	l.runUntil(l.remove("web3"), seedbed.JobSucceeded)
	if volumes, _ := l.pool.Volumes(t.Context()); len(volumes) > 0 {
		t.Errorf("left behind: %v", volumes)
	}
}

func TestCompositionHeld(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	l.runUntil(l.compose("web1", false), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	d, err := l.hv.DomainState(t.Context(), inst.ID)
	if inst.State != seedbed.InstanceStopped || !inst.Held || err != nil || d.State != seedbed.DomainOff {
		t.Errorf("instance is %s, held %t, its domain %+v, %v", inst.State, inst.Held, d, err)
	}
	receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoStart, Name: "web1"}, nil)
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	inst, err = l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if inst.State != seedbed.InstanceRunning || inst.Held {
		t.Errorf("started, the instance is %s, held %t", inst.State, inst.Held)
	}
}

// TestCompositionWithoutUserData checks that a guest whose profile has no user-data is served an
// empty document, as in PVC.
func TestCompositionWithoutUserData(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	_, err := l.db.ChangeProfile(t.Context(), "web", func(p *seedbed.Profile) error { p.Document = ""; return nil })
	l.ok(err)
	l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
	page, err := l.db.FeedPage(t.Context(), testNode, 0, "")
	l.ok(err)
	if len(page.Changes) != 1 || feedtest.Changes(t, page)[0].Guest == nil ||
		feedtest.Changes(t, page)[0].Guest.UserData == nil || feedtest.Changes(t, page)[0].Guest.UserData.Size != 0 {
		t.Fatalf("served %+v", page.Changes)
	}
	if doc, err := l.db.Blob(t.Context(), feedtest.Changes(t, page)[0].Guest.UserData.SHA256); err != nil || len(doc) != 0 {
		t.Errorf("%q, %v", doc, err)
	}
}

func TestCompositionRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	l.serve(func(s *intake.Serving) { s.Pools = []string{"default"} })
	ctx := t.Context()
	profile := func(name string, disks []seedbed.TemplateDisk, change func(*seedbed.Profile) error) {
		t.Helper()
		_, err := l.db.CreateStorageTemplate(ctx, name)
		l.ok(err)
		for _, d := range disks {
			l.addDisk(name, d)
		}
		p := seedbed.NewScripted(name, seedbed.Empty)
		p.System, p.NetworkTemplate, p.Storage = "small", "lan", name
		l.ok(change(&p))
		_, err = l.db.CreateProfile(ctx, p)
		l.ok(err)
	}
	same := func(*seedbed.Profile) error { return nil }
	disk := seedbed.TemplateDisk{Name: "sda", Pool: "default", Size: seedbed.GiB, Filesystem: "ext4"}
	mounted := disk
	mounted.Name, mounted.Mountpoint = "sdb", "/srv"
	profile("script", []seedbed.TemplateDisk{disk, mounted}, same)
	profile("pool", []seedbed.TemplateDisk{{Name: "sda", Pool: "fast", Size: seedbed.GiB}}, same)
	_, err := l.db.CreateSystemTemplate(ctx,
		seedbed.SystemTemplate{Name: "far", VCPUs: 1, Memory: seedbed.GiB, NodeLimit: []string{"hv7", "hv8"}})
	l.ok(err)
	profile("node", nil, func(p *seedbed.Profile) error { p.System = "far"; return nil })
	_, err = l.db.CreateNetworkTemplate(ctx, "one", "{prefix}:00:00:{vmid}0")
	l.ok(err)
	l.addNetwork("one", "default")
	l.addNetwork("one", "200")
	profile("mac", nil, func(p *seedbed.Profile) error { p.NetworkTemplate = "one"; return nil })
	l.compose("web1", true)

	for name, c := range map[string]struct {
		req  seedbed.Request
		kind error
		say  []string
	}{
		"a name":         {seedbed.Request{Name: "Web_1", Profile: "web"}, seedbed.ErrInvalid, []string{"Web_1"}},
		"an argument":    {seedbed.Request{Name: "a", Profile: "web", Arguments: []string{"k"}}, seedbed.ErrInvalid, []string{"key=value"}},
		"an unknown one": {seedbed.Request{Name: "a", Profile: "none"}, seedbed.ErrInvalid, []string{`"none"`}},
		"one with a script": {seedbed.Request{Name: "a", Profile: "script"}, seedbed.ErrInvalid,
			[]string{"disk sda has the filesystem ext4", "disk sdb has the mountpoint /srv", "which is empty"}},
		"another pool":    {seedbed.Request{Name: "a", Profile: "pool"}, seedbed.ErrInvalid, []string{`pool "fast" is not present`}},
		"another node":    {seedbed.Request{Name: "a", Profile: "node"}, seedbed.ErrInvalid, []string{"hv7, hv8", testNode}},
		"one MAC for two": {seedbed.Request{Name: "a", Profile: "mac"}, seedbed.ErrInvalid, []string{"{netid}"}},
		"a name in use":   {seedbed.Request{Name: "web1", Profile: "web"}, seedbed.ErrExists, []string{"web1"}},
		"a MAC in use":    {seedbed.Request{Name: "web17", Profile: "web"}, seedbed.ErrExists, []string{"52:54:01:00:10:00", "web1"}},
	} {
		_, err := l.asPVC(ctx, c.req)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range c.say {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", name, err, s)
			}
		}
	}
	all, err := l.db.Instances(ctx)
	l.ok(err)
	if len(all) != 1 {
		t.Errorf("%d instances: want web1 alone", len(all))
	}
}
