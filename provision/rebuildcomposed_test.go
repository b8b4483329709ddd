package provision

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// composedVolumes returns the instance of that name and the names of all volumes in the pool.
func (l *lab) composedVolumes(name string) (seedbed.Instance, []string) {
	l.t.Helper()
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault(name))
	l.ok(err)
	volumes, err := l.pool.Volumes(l.t.Context())
	l.ok(err)
	var names []string
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	return inst, names
}

// runsFrom checks that the instance's domain runs, from its disks in their order.
func (l *lab) runsFrom(inst seedbed.Instance) {
	l.t.Helper()
	l.domain(inst.ID, seedbed.DomainRunning)
	spec, _ := l.hv.Spec(inst.ID)
	for i, v := range inst.Volumes {
		if i >= len(spec.Disks) || !strings.Contains(spec.Disks[i].Source, v.Name+".") {
			l.t.Errorf("disk %d of the domain is not %s: %+v", i, v.Name, spec.Disks)
		}
	}
}

// TestRebuildComposed checks that an instance of a provisioner profile gets the disks of its
// storage template's current version, and keeps its addresses, its size and the rest.
func TestRebuildComposed(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	l.runUntil(l.compose("web3", true), seedbed.JobSucceeded)
	was, _ := l.composedVolumes("web3")
	l.setUserData("cloud", "#cloud-config\n{new: 1}\n")
	l.addDisk("root", seedbed.TemplateDisk{Name: "sdc", Pool: "default", Size: 2 * seedbed.GiB})
	plan, err := l.intake.Plan(t.Context(), seedbed.Request{Action: seedbed.DoRebuild, Name: "web3"})
	l.ok(err)
	if len(plan.Problems) > 0 || len(plan.Volumes) != 3 || plan.Profile != "web" ||
		plan.Stages[0] != "shutdown" || plan.NICs[0].MAC != was.NICs[0].MAC {
		t.Errorf("plan %+v", plan)
	}
	receipt, err := l.intake.Submit(t.Context(),
		seedbed.Request{Action: seedbed.DoRebuild, Name: "web3", Params: map[string]any{"force": true}}, nil)
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	now, names := l.composedVolumes("web3")
	if d := cmp.Diff(same(was), same(now), byValue); d != "" {
		t.Errorf("the instance (-before +after):\n%s", d)
	}
	if len(now.Volumes) != 3 || len(names) != 3 || now.Volumes[0].Image != "debian" || now.Volumes[2].Size != 2*seedbed.GiB {
		t.Errorf("volumes %+v, in the pool %v", now.Volumes, names)
	}
	for _, v := range was.Volumes {
		if strings.Contains(strings.Join(names, " ")+" ", v.Name+" ") {
			t.Errorf("the former disk %s is still there", v.Name)
		}
	}
	if string(now.UserData) != "#cloud-config\n{new: 1}\n" || now.Profile != "web" || now.VCPUs != 2 ||
		now.Ready != was.Ready || now.Source == was.Source {
		t.Errorf("the instance is %+v", now)
	}
	l.runsFrom(now)
}

// TestRebuildComposedFails checks that if anything fails before the rebuilt instance is ready, it
// has its former disks and everything else again.
func TestRebuildComposedFails(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"CloneVolume", "DefineDomain", "StartDomain"} {
		t.Run(effect, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProvisioner()
			l.runUntil(l.compose("web3", true), seedbed.JobSucceeded)
			was, before := l.composedVolumes("web3")
			receipt, err := l.intake.Submit(t.Context(),
				seedbed.Request{Action: seedbed.DoRebuild, Name: "web3", Params: map[string]any{"force": true}}, nil)
			l.ok(err)
			var failed atomic.Int32
			refuse := func(_ context.Context, name string, at drivertest.Point) error {
				if name == effect && at == drivertest.After && failed.Add(1) == 1 {
					return seedbed.Errorf(seedbed.ErrForbidden, "%s is refused", name)
				}
				return nil
			}
			l.hv.Fail(refuse)
			l.pool.Fail(refuse)
			l.runUntil(receipt.Job, seedbed.JobRolledBack)
			if failed.Load() == 0 {
				t.Fatal("nothing failed")
			}
			now, after := l.composedVolumes("web3")
			was.Revision, was.Changed, was.Fetched, was.Reported = now.Revision, now.Changed, now.Fetched, now.Reported
			if d := cmp.Diff(was, now, byValue); d != "" {
				t.Errorf("the instance (-before +after):\n%s", d)
			}
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("the pool (-before +after):\n%s", d)
			}
			l.runsFrom(now)
		})
	}
}

// TestRebuildAcrossKinds rebuilds from one kind of profile to the other, and checks what is
// refused.
func TestRebuildAcrossKinds(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	ask := func(req seedbed.Request) (seedbed.Receipt, error) {
		req.Action, req.Name = seedbed.DoRebuild, "web3"
		return l.intake.Submit(t.Context(), req, nil)
	}
	l.runUntil(l.create("web3"), seedbed.JobSucceeded)
	for _, step := range []struct {
		profile string
		disks   int
	}{{"web", 2}, {"small", 1}, {"web", 2}} {
		receipt, err := ask(seedbed.Request{Profile: step.profile, Params: map[string]any{"force": true}})
		l.ok(err)
		l.runUntil(receipt.Job, seedbed.JobSucceeded)
		if now, names := l.composedVolumes("web3"); now.Profile != step.profile || len(now.Volumes) != step.disks || len(names) != step.disks {
			t.Errorf("by %s: %+v, in the pool %v", step.profile, now, names)
		}
	}
	for _, test := range []struct {
		name string
		req  seedbed.Request
		kind error
		says string
	}{
		{"an image", seedbed.Request{Image: "debian"}, seedbed.ErrInvalid, "expected no image"},
		{"a param", seedbed.Request{Params: map[string]any{"vcpus": 3}}, seedbed.ErrInvalid, "declares no params: expected none except ready"},
	} {
		if _, err := ask(test.req); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want %q", test.name, err, test.says)
		}
	}
	now, names := l.composedVolumes("web3")
	if now.State != seedbed.InstanceRunning || len(names) != 2 {
		t.Errorf("what was refused left %+v, %v", now, names)
	}
}

// TestRebuildKeepsABlankDisk checks that the first disk keeps its size if a storage template, not an
// image, gives it, and the instance was made larger than its profile says.
func TestRebuildKeepsABlankDisk(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	_, err := l.db.CreateStorageTemplate(ctx, "blank")
	l.ok(err)
	l.addDisk("blank", seedbed.TemplateDisk{Name: "sda", Pool: "default", Size: seedbed.GiB})
	_, err = l.db.CreateProfile(ctx, seedbed.Profile{Name: "empty", VCPUs: 1, Memory: seedbed.GiB, Network: "default",
		Ready: seedbed.ReadyStarted, Storage: "blank", DiskSize: 2 * seedbed.GiB})
	l.ok(err)
	rebuilt := func(params map[string]any) seedbed.Bytes {
		l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Params: params}, nil)),
			seedbed.JobSucceeded)
		now, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
		l.ok(err)
		return now.Volumes[0].Size
	}
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "empty",
		Params: map[string]any{"disk": "5GiB"}}, nil)), seedbed.JobSucceeded)
	if size := rebuilt(map[string]any{"force": true}); size != 5*seedbed.GiB {
		t.Errorf("rebuilt with %s", size)
	}
	if size := rebuilt(map[string]any{"force": true, "disk": "3GiB"}); size != 3*seedbed.GiB {
		t.Errorf("rebuilt with %s, 3GiB were asked for", size)
	}
}

// TestRebuildKeepsFirmware checks that a rebuild keeps the firmware and the TPM that a request gave an instance, unless the request or
// another profile says otherwise.
func TestRebuildKeepsFirmware(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "small",
		Params: map[string]any{"firmware": "uefi-secure", "tpm": true}}, nil)), seedbed.JobSucceeded)
	id := l.byName("web1").ID
	for _, c := range []struct {
		given    map[string]any
		firmware seedbed.Firmware
		tpm      bool
	}{
		{nil, seedbed.FirmwareSecure, true},
		{map[string]any{"tpm": false}, seedbed.FirmwareSecure, false},
		{map[string]any{"firmware": "uefi"}, seedbed.FirmwareUEFI, false},
	} {
		l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Params: c.given}, nil)),
			seedbed.JobSucceeded)
		if spec, _ := l.hv.Spec(id); spec.Firmware != c.firmware || spec.System.TPM != c.tpm {
			t.Errorf("rebuilt with %v, the domain has the firmware %q and a TPM: %v", c.given, spec.Firmware, spec.System.TPM)
		}
	}
}
