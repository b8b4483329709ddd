package intake

import (
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
	"seedbed/provision/placement"
	"seedbed/provision/record"
)

// iso returns the image that a create wants in the CD-ROM drive; the zero value for none.
func (in *Intake) iso(ctx context.Context, project string, m tailored, s shape) (seedbed.Image, error) {
	if m.Script != "" && (s.cdrom != "" || s.bootFrom == seedbed.BootCDROM) {
		return seedbed.Image{}, seedbed.Errorf(seedbed.ErrInvalid,
			"a CD-ROM drive is not for profile %s, whose script makes the domain: expected a profile without a script", m.Name)
	}
	if m.Script != "" && (s.firmware != "" || s.tpm) {
		return seedbed.Image{}, seedbed.Errorf(seedbed.ErrInvalid,
			"firmware and tpm are not for profile %s, whose script makes the domain: expected a profile without a script", m.Name)
	}
	if s.cdrom == "" {
		return seedbed.Image{}, nil
	}
	return in.isoNamed(ctx, project, s.cdrom)
}

// isoNamed returns the image for a CD-ROM drive that a request of a project names.
func (in *Intake) isoNamed(ctx context.Context, project, name string) (image seedbed.Image, err error) {
	qualified, err := in.uses(ctx, seedbed.PublishedImage, project, name)
	if err == nil {
		image, err = in.store.Image(ctx, qualified)
	}
	if err == nil {
		err = image.CheckISO()
	}
	return image, err
}

// Set accepts a request to change the hardware of the instance called name: its CD-ROM drive, what it boots from, its console and
// screen. Errors: seedbed.ErrNotFound for an instance that does not exist, ErrInvalid for a change that cannot be made or that changes
// nothing, ErrConflict for an instance whose script made its domain or whose node does not have the image, and otherwise those of
// Flatten.
func (in *Intake) Set(ctx context.Context, name seedbed.InstanceName, change seedbed.HardwareChange, o seedbed.JobOptions) (
	seedbed.Receipt, error,
) {
	return in.set(ctx, name, change, o, nil)
}

// set is Set for a request that a delivery may have carried.
func (in *Intake) set(ctx context.Context, name seedbed.InstanceName, change seedbed.HardwareChange, o seedbed.JobOptions,
	delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	inst, change, err := in.changed(ctx, name, change)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job := jobOn(inst, seedbed.JobSet, o)
	if job.Spec, err = json.Marshal(seedbed.HardwareJob{Set: change}); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the change of %s: %w", inst.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery})
}

// changed returns the instance that is to change, and the change with the qualified name of its image.
func (in *Intake) changed(ctx context.Context, name seedbed.InstanceName, change seedbed.HardwareChange) (
	inst seedbed.Instance, _ seedbed.HardwareChange, err error,
) {
	if err := name.Check(); err != nil {
		return inst, change, err
	}
	if inst, err = in.store.InstanceByName(ctx, name); err != nil {
		return inst, change, err
	}
	if change.CDROM != nil && *change.CDROM != "" {
		image, err := in.isoNamed(ctx, inst.Project, *change.CDROM)
		if err != nil {
			return inst, change, err
		}
		need := placement.Demand{Name: inst.Name, Node: inst.Node, Pools: []string{image.Pool}, Images: []seedbed.Image{image}}
		if err := in.placer.Fits(ctx, inst.Node, need, seedbed.NodeUse{}); err != nil {
			return inst, change, unplaced(ctx, err)
		}
		change.CDROM = &image.Name
	}
	if change.Group != nil {
		group, err := in.placementGroup(ctx, inst.Project, *change.Group)
		if err != nil {
			return inst, change, err
		}
		change.Group = &group
	}
	to, _, err := change.Of(inst.Hardware())
	if err == nil {
		err = inst.CheckHardware(to)
	}
	if err == nil && to.Restart == seedbed.RestartAlways && inst.System.Restart == "" {
		need := placement.Demand{Name: inst.Name, VCPUs: inst.VCPUs, Memory: inst.Memory, Restarts: true}
		err = unplaced(ctx, in.placer.Fits(ctx, inst.Node, need, useOf(inst)))
	}
	if err == nil && to.Group != inst.PlacementGroup {
		err = in.joinable(ctx, inst, to.Group)
	}
	if err == nil {
		err = record.CheckMachine(ctx, in.store, inst)
	}
	return inst, change, err
}

// joinable returns ErrConflict if the policy of a placement group does not allow an instance where it is.
func (in *Intake) joinable(ctx context.Context, inst seedbed.Instance, group string) error {
	inst.PlacementGroup = group
	need := placement.Demand{Name: inst.Name, Node: inst.Node}
	if err := in.together(ctx, inst, &need); err != nil {
		return err
	}
	why, err := in.placer.Apart(ctx, need)
	if err == nil && why != "" && seedbed.IsTenant(ctx) {
		why = "other instances of the group are not where it allows"
	}
	if err == nil && why != "" {
		err = seedbed.Errorf(seedbed.ErrConflict, "instance %q cannot be in the placement group %s (%s) where it is: %s: move it first "+
			"(seedbed vm migrate)", inst.Name, group, need.Policy, why)
	}
	return err
}

// PlanSet returns what Set would make of the instance, and why it would not be accepted. It writes nothing.
func (in *Intake) PlanSet(ctx context.Context, name seedbed.InstanceName, change seedbed.HardwareChange) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: name.Project, Name: name.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobSet})
	inst, change, err := in.changed(ctx, name, change)
	if err != nil {
		return p, note(&p, err)
	}
	_, changed, err := change.Of(inst.Hardware())
	if err != nil {
		return p, note(&p, err)
	}
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory, p.Volumes, p.NICs = inst.Profile, inst.Image, inst.Node, inst.VCPUs, inst.Memory,
		inst.Volumes, inst.NICs
	if seedbed.IsTenant(ctx) {
		p.Node = ""
	}
	if inst.State != seedbed.InstanceRunning && inst.State != seedbed.InstanceStopped {
		p.Problems = append(p.Problems, fmt.Sprintf("instance %q is %s: it must be running or stopped", inst.Name, inst.State))
	}
	for _, what := range changed {
		when := "at its next start"
		switch {
		case what == "restart" || what == "restart_priority" || what == "placement_group":
			p.Notes = append(p.Notes, what+" changes at once")
			continue
		case inst.State != seedbed.InstanceRunning:
		case what == "autostart":
			when = "at once"
		case what == "cdrom":
			when = "at once, or at its next start if it has no CD-ROM drive yet"
		}
		p.Notes = append(p.Notes, fmt.Sprintf("%s changes, for the guest %s", what, when))
	}
	return p, nil
}

// Rename accepts a request to give the instance called name, which must be stopped, the name to. Errors: seedbed.ErrNotFound for an
// instance that does not exist, ErrInvalid for an unusable name or the one that it has, ErrExists if another instance has it, ErrConflict
// for an instance that is not stopped, and otherwise those of Flatten.
func (in *Intake) Rename(ctx context.Context, name seedbed.InstanceName, to string, o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.rename(ctx, name, to, o, nil)
}

// rename is Rename for a request that a delivery may have carried.
func (in *Intake) rename(ctx context.Context, name seedbed.InstanceName, to string, o seedbed.JobOptions, delivery *seedbed.Delivery) (
	seedbed.Receipt, error,
) {
	if err := name.Check(); err != nil {
		return seedbed.Receipt{}, err
	}
	inst, err := in.store.InstanceByName(ctx, name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job := jobOn(inst, seedbed.JobRename, o)
	if job.Spec, err = json.Marshal(seedbed.RenameJob{To: to}); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the name of %s: %w", inst.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery})
}

// PlanRename returns what Rename would make of the instance, and why it would not be accepted. It writes nothing.
func (in *Intake) PlanRename(ctx context.Context, name seedbed.InstanceName, to string) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: name.Project, Name: name.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobRename})
	if err := name.Check(); err != nil {
		return p, note(&p, err)
	}
	inst, err := in.store.InstanceByName(ctx, name)
	if err != nil {
		return p, note(&p, err)
	}
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory, p.Volumes, p.NICs = inst.Profile, inst.Image, inst.Node, inst.VCPUs, inst.Memory,
		inst.Volumes, inst.NICs
	if err := inst.CheckRename(to); err != nil {
		return p, note(&p, err)
	}
	p.Name = to
	if err := in.planName(ctx, &p); err != nil {
		return p, err
	}
	in.planDomain(ctx, &p)
	p.Name = inst.Name
	p.Notes = append(p.Notes,
		fmt.Sprintf("the instance keeps its ID, disks, addresses and tokens; its guest is told the host name %s when it starts", to))
	if seedbed.IsTenant(ctx) {
		p.Node = ""
	}
	return p, nil
}
