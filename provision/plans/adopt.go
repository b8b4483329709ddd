package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// adoptPlan brings a domain that is off, and its disks, under management. The domain must be off
// because until the second stage its definition names disks that have already moved.
func (t *task) adoptPlan() engine.Plan {
	return engine.Plan{
		Broken: seedbed.InstanceFailed,
		Stages: []engine.Stage{
			{Name: "take-volumes", Run: t.takeVolumes, Undo: t.giveVolumesBack, Made: t.madeVolumes},
			{Name: "take-domain", Run: t.takeDomain, Undo: t.giveDomainBack, Guards: "not undone, because the domain could not be given back"},
			{Name: "publish", Run: t.publish, Undo: t.retract, State: seedbed.InstanceStopped},
		},
	}
}

// forgetPlan stops managing an instance. Like a removal it is never undone: a released resource may
// already belong to someone else.
func (t *task) forgetPlan() engine.Plan {
	return engine.Plan{
		Drops: true,
		Stages: []engine.Stage{
			{Name: "retract", Run: t.retract},
			{Name: "release-domain", Run: t.releaseDomain},
			{Name: "release-volumes", Run: t.releaseVolumes},
		},
	}
}

// adoption returns the instance of an adopt job and the volumes to adopt.
func (t *task) adoption(ctx context.Context) (inst seedbed.Instance, volumes []seedbed.VolumeAdoption, err error) {
	if inst, err = t.Instance(ctx); err != nil {
		return inst, nil, err
	}
	var spec seedbed.AdoptSpec
	if err := json.Unmarshal(t.Job.Spec, &spec); err != nil {
		return inst, nil, fmt.Errorf("read the input of job %s: %w", t.Job.ID, err)
	}
	if len(spec.Sources) != len(inst.Volumes) {
		return inst, nil, fmt.Errorf("job %s has %d sources for %d volumes", t.Job.ID, len(spec.Sources), len(inst.Volumes))
	}
	for i, v := range inst.Volumes {
		volumes = append(volumes, seedbed.VolumeAdoption{
			Pool: v.Pool, Name: v.Name, Instance: inst.ID, Project: inst.Project, Source: spec.Sources[i],
		})
	}
	return inst, volumes, nil
}

func (t *task) takeVolumes(ctx context.Context) error {
	_, volumes, err := t.adoption(ctx)
	if err != nil {
		return err
	}
	_, err = t.takenVolumes(ctx, volumes, true)
	return err
}

// takenVolumes adopts the volumes and returns how they are reached. It may run again.
func (t *task) takenVolumes(ctx context.Context, volumes []seedbed.VolumeAdoption, tell bool) ([]seedbed.Disk, error) {
	disks := make([]seedbed.Disk, len(volumes))
	for i, v := range volumes {
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			info, err := effects.AdoptVolume.Do(ctx, t.Worker(), call, v)
			disks[i] = info.Disk
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("take disk %s as volume %s: %w", v.Source, v.Name, err)
		}
		if tell {
			t.Event("info", (i+1)*100/len(volumes), "disk %s is volume %s of pool %s now", v.Source, v.Name, v.Pool)
		}
	}
	return disks, nil
}

func (t *task) giveVolumesBack(ctx context.Context) error {
	_, volumes, err := t.adoption(ctx)
	if err != nil {
		return err
	}
	return t.letGo(ctx, volumes)
}

func (t *task) takeDomain(ctx context.Context) error {
	a, err := t.domainAdoption(ctx)
	if err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.AdoptDomain.Do(ctx, t.Worker(), call, a)
	})
	if err != nil {
		return fmt.Errorf("take domain %s: %w", a.Name, err)
	}
	t.Event("info", 100, "domain %s now belongs to this instance", a.Name)
	return nil
}

func (t *task) giveDomainBack(ctx context.Context) error {
	a, err := t.domainAdoption(ctx) // all its volumes are adopted by now
	if err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.ReleaseDomain.Do(ctx, t.Worker(), call, a)
	})
	if err != nil {
		return engine.Left(seedbed.OrphanDomain, "", a.Name, fmt.Errorf("give domain %s back: %w", a.Name, err))
	}
	return nil
}

// domainAdoption returns what the adopted domain is to become.
func (t *task) domainAdoption(ctx context.Context) (a seedbed.DomainAdoption, err error) {
	inst, volumes, err := t.adoption(ctx)
	if err != nil {
		return a, err
	}
	disks, err := t.takenVolumes(ctx, volumes, false)
	if err != nil {
		return a, err
	}
	spec, err := t.domain(ctx, inst, disks)
	if err != nil {
		return a, err
	}
	a = seedbed.DomainAdoption{ID: inst.ID, Name: spec.Name, Job: t.Ref.ID, Profile: inst.Profile, Project: inst.Project, Disks: disks,
		NICs: spec.NICs}
	for _, v := range volumes {
		a.Sources = append(a.Sources, v.Source)
	}
	return a, nil
}

func (t *task) releaseDomain(ctx context.Context) error {
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.ReleaseDomain.Do(ctx, t.Worker(), call, seedbed.DomainAdoption{ID: t.Job.Instance, Name: t.domainName()})
	})
	if err != nil {
		return fmt.Errorf("release domain %s: %w", t.domainName(), err)
	}
	t.Event("info", 100, "domain %s no longer belongs to an instance, and stays as it is", t.domainName())
	return nil
}

func (t *task) releaseVolumes(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	var volumes []seedbed.VolumeAdoption
	for _, v := range inst.Volumes {
		volumes = append(volumes, seedbed.VolumeAdoption{Pool: v.Pool, Name: v.Name, Instance: inst.ID})
	}
	return t.letGo(ctx, volumes)
}

// letGo releases volumes. It tries every volume, even if some fail.
func (t *task) letGo(ctx context.Context, volumes []seedbed.VolumeAdoption) error {
	var failed []error
	for i, v := range volumes {
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.ReleaseVolume.Do(ctx, t.Worker(), call, v)
		})
		if err != nil {
			failed = append(failed, engine.Left(seedbed.OrphanVolume, v.Pool, v.Name,
				fmt.Errorf("release volume %s of pool %s: %w", v.Name, v.Pool, err)))
			continue
		}
		t.Event("info", (i+1)*100/len(volumes), "volume %s of pool %s no longer belongs to an instance, and stays", v.Name, v.Pool)
	}
	return errors.Join(failed...)
}
