package provision

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// foreign returns the domain of that name as a worker describes it.
func (l *lab) foreign(name string) seedbed.ForeignDomain {
	l.t.Helper()
	f, err := l.hv.ForeignDomain(l.t.Context(), name)
	l.ok(err)
	for i, d := range f.Disks {
		f.Disks[i], err = l.pool.Locate(l.t.Context(), d)
		l.ok(err)
	}
	f.Node = testNode
	return f
}

// TestForgetAndAdopt forgets an instance while it runs, and adopts it again once it is off. Nothing
// of it is lost.
func TestForgetAndAdopt(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	inst := l.made()
	l.runUntil(l.job(l.intake.Forget(ctx, seedbed.InDefault("web1"), usual)), seedbed.JobSucceeded)
	_, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.want("a forgotten instance", err, seedbed.ErrNotFound)
	_, err = l.intake.Adopt(ctx, l.foreign("web1"), seedbed.AdoptRequest{}, usual)
	l.want("adopt while it runs", err, seedbed.ErrConflict)
	l.hv.SetState(inst.ID, seedbed.DomainOff, "shutdown")

	if all, err := l.pool.Volumes(ctx); err != nil || len(all) != 0 {
		t.Fatalf("volumes %+v, %v: want none of ours", all, err)
	}
	_, err = l.intake.Adopt(ctx, l.foreign("web1"), seedbed.AdoptRequest{Addresses: []string{"192.0.2.1"}}, usual)
	l.want("an address of another network", err, seedbed.ErrInvalid)
	l.runUntil(l.job(l.intake.Adopt(ctx, l.foreign("web1"),
		seedbed.AdoptRequest{Addresses: []string{"10.9.0.77"}, Tags: map[string]string{"from": "before"}}, usual)), seedbed.JobSucceeded)
	got, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	if got.ID != inst.ID || got.State != seedbed.InstanceStopped ||
		got.NICs[0].MAC != inst.NICs[0].MAC || got.NICs[0].Addr.String() != "10.9.0.77" ||
		got.Volumes[0].Size != inst.Volumes[0].Size || got.Volumes[0].Image != "debian" || got.Tags["from"] != "before" {
		t.Fatalf("adopted %+v; was %+v", got, inst)
	}
	spec, _ := l.hv.Spec(inst.ID)
	if len(spec.NICs) != 1 || spec.NICs[0].Tap != got.NICs[0].ID.Tap() {
		t.Errorf("NICs of the adopted domain: %+v, want the tap %s", spec.NICs, got.NICs[0].ID.Tap())
	}
	_, err = l.intake.Adopt(ctx, l.foreignOf(spec), seedbed.AdoptRequest{}, usual)
	l.want("adopt it again", err, seedbed.ErrExists)
	// It is an instance like any other.
	l.runUntil(l.asked("start", "web1"), seedbed.JobSucceeded)
	l.runUntil(l.asked("remove", "web1"), seedbed.JobSucceeded)
	if all, err := l.pool.Volumes(ctx); err != nil || len(all) != 0 {
		t.Errorf("volumes %+v, %v after it was removed", all, err)
	}
}

// foreignOf describes a domain as if it belonged to no instance.
func (l *lab) foreignOf(spec seedbed.DomainSpec) seedbed.ForeignDomain {
	f := seedbed.ForeignDomain{ID: spec.ID, Name: spec.Name, Node: testNode, VCPUs: spec.VCPUs, Memory: spec.Memory}
	for _, n := range spec.NICs {
		f.NICs = append(f.NICs, seedbed.ForeignNIC{MAC: n.MAC, Bridge: n.Bridge})
	}
	return f
}

func (l *lab) asked(action, name string) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Submit(l.t.Context(), seedbed.Request{Action: action, Name: name}, nil))
}

// TestAdoptUndone checks that a failed adoption leaves the domain and its disks as they were.
func TestAdoptUndone(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"AdoptVolume", "AdoptDomain"} {
		for _, point := range []drivertest.Point{drivertest.Before, drivertest.After} {
			t.Run(effect+" "+string(point), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyStarted)
				ctx := t.Context()
				l.pool.AddForeign("old")
				id, mac := seedbed.NewInstanceID(), seedbed.NewMAC()
				l.hv.AddForeignMachine(id, "old", "/memory/old.qcow2", mac, "seedbed0")
				before := l.foreign("old")
				fail := func(_ context.Context, name string, at drivertest.Point) error {
					if name == effect && at == point {
						return errors.New("broken")
					}
					return nil
				}
				if effect == "AdoptDomain" {
					l.hv.Fail(fail)
				} else {
					l.pool.Fail(fail)
				}
				want := seedbed.JobRolledBack
				l.runUntil(l.job(l.intake.Adopt(ctx, before, seedbed.AdoptRequest{}, usual)), want)
				l.hv.Fail(nil)
				l.pool.Fail(nil)
				after := l.foreign("old")
				if after.Disks[0] != before.Disks[0] || after.NICs[0] != before.NICs[0] {
					t.Errorf("the domain is %+v, and was %+v", after, before)
				}
				_, err := l.db.InstanceByName(ctx, seedbed.InDefault("old"))
				l.want("the instance", err, seedbed.ErrNotFound)
				l.runUntil(l.job(l.intake.Adopt(ctx, after, seedbed.AdoptRequest{}, usual)), seedbed.JobSucceeded)
			})
		}
	}
}

func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	f := seedbed.ForeignDomain{ID: seedbed.NewInstanceID(), Name: "old", Node: testNode, VCPUs: 1, Memory: seedbed.GiB,
		NICs: []seedbed.ForeignNIC{{MAC: seedbed.NewMAC(), Bridge: "br9"}}, Problems: []string{"disk vda is at /x"}}
	_, err := l.intake.Adopt(ctx, f, seedbed.AdoptRequest{}, usual)
	l.want("a bridge that is no network's", err, seedbed.ErrConflict)
	_, err = l.intake.Adopt(ctx, f, seedbed.AdoptRequest{Addresses: []string{"10.9.0.7", "10.9.0.8"}}, usual)
	l.want("more addresses than NICs", err, seedbed.ErrInvalid)
	f.NICs, f.Problems = []seedbed.ForeignNIC{{MAC: seedbed.NewMAC(), Bridge: "seedbed0"}}, nil
	_, err = l.intake.Adopt(ctx, f, seedbed.AdoptRequest{Addresses: []string{"10.9.0.1"}}, usual)
	l.want("the gateway's address", err, seedbed.ErrInvalid)
	f.NICs[0].MAC = l.made().NICs[0].MAC
	_, err = l.intake.Adopt(ctx, f, seedbed.AdoptRequest{}, usual)
	l.want("a MAC address in use", err, seedbed.ErrExists)
	_, err = l.intake.Forget(ctx, seedbed.InDefault("absent"), usual)
	l.want("forget what is not there", err, seedbed.ErrNotFound)
}

// defined checks that the instance's domain exists, whatever its state.
func (l *lab) defined(inst seedbed.Instance) {
	l.t.Helper()
	if spec, there := l.hv.Spec(inst.ID); !there || len(spec.Disks) != 1 {
		l.t.Errorf("domain %s", fmt.Sprint(spec, there))
	}
}
