package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/record"
)

// createPlan makes an instance in the way that its job asks for.
func (t *task) createPlan() engine.Plan {
	return engine.Plan{Stages: t.createStages(), Broken: seedbed.InstanceFailed, Drops: scriptedBy(t.Job).Undefined}
}

func (t *task) createStages() []engine.Stage {
	switch how := scriptedBy(t.Job); {
	case how.Scripted && how.Undefined:
		return t.undefinedScriptedStages()
	case how.Scripted:
		return t.scriptedStages()
	case how.Undefined:
		return t.undefinedStages()
	}
	return t.definedStages()
}

// definedStages makes an instance and starts it. The guest plane knows the instance before its first
// packet. When it is undone, a guest that may still be running keeps its filter, its definition and
// its disk; removing the instance later deletes them in order.
func (t *task) definedStages() []engine.Stage {
	return []engine.Stage{
		{Name: "volumes", Run: t.makeVolumes, Undo: t.undoVolumes, Limit: t.volumesLimit, Made: t.madeVolumes},
		{Name: "define", Run: t.defineDomain, Undo: t.undefineDomain, Made: t.madeDomain},
		{Name: "publish", Run: t.publishNew, Undo: t.retract},
		{Name: "start", Run: t.startUnlessHeld, Undo: t.destroyDomain, State: seedbed.InstanceRunning,
			Guards: "not undone, because the domain could not be switched off"},
		{Name: "ready", Run: t.awaitGuest},
	}
}

func (t *task) makeVolumes(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	if err := t.cloneVolumes(ctx, inst); err != nil {
		return err
	}
	t.Result.Flattened = inst.System.DiskCopy
	return nil
}

func (t *task) cloneVolumes(ctx context.Context, inst seedbed.Instance) error {
	if skipped := t.Job.Skipped(); skipped != "" {
		t.Event("warn", 0, "%s", skipped)
	}
	t.Event("info", 0, "making %d volume(s)", len(inst.Volumes))
	_, err := t.disks(ctx, inst, func(i int, v seedbed.VolumeInfo) {
		t.Event("info", (i+1)*100/len(inst.Volumes), "volume %s is ready (%s in pool %s)", v.Name, v.Size, v.Pool)
	})
	if err != nil {
		return err
	}
	return t.copyVolumes(ctx, inst)
}

// disks makes sure that the instance's volumes exist and returns how they are reached. Cloning
// adopts an existing volume, so the result need not be recorded. If each is nil, volumes that this
// task has already made are not requested again.
func (t *task) disks(ctx context.Context, inst seedbed.Instance, each func(int, seedbed.VolumeInfo)) ([]seedbed.Disk, error) {
	disks := make([]seedbed.Disk, len(inst.Volumes))
	for i, v := range inst.Volumes {
		place := v.Pool + "/" + v.Name
		if disk, ok := t.made[place]; ok && each == nil {
			disks[i] = disk
			continue
		}
		spec := volumeOf(inst, v)
		var info seedbed.VolumeInfo
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			info, err = effects.CloneVolume.Do(ctx, t.Worker(), call, spec)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", makingOf(v), err)
		}
		disks[i] = info.Disk
		if t.made == nil {
			t.made = map[string]seedbed.Disk{}
		}
		t.made[place] = info.Disk
		if each != nil {
			each(i, info)
		}
	}
	return disks, nil
}

// makingOf describes how a volume is made.
func makingOf(v seedbed.Volume) string {
	if v.Image == "" {
		return "make volume " + v.Name
	}
	return "clone image " + v.Image + " to volume " + v.Name
}

// undoVolumes removes the volumes of an instance that was not completed.
func (t *task) undoVolumes(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	return t.dropVolumes(ctx, inst)
}

// dropVolumes removes volumes that no guest has written to. It tries every volume, even if some
// fail. A foreign volume of the same name was there before the job, and stays.
func (t *task) dropVolumes(ctx context.Context, inst seedbed.Instance) error {
	var failed []error
	t.stopCopies(ctx, inst)
	for i, v := range inst.Volumes {
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.RemoveVolume.Do(ctx, t.Worker(), call, effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: inst.ID})
		})
		switch {
		case err == nil:
			t.Event("info", (i+1)*100/len(inst.Volumes), "volume %s is removed", v.Name)
		case errors.Is(err, seedbed.ErrConflict):
			t.Event("warn", (i+1)*100/len(inst.Volumes), "left untouched: %s", err)
		default:
			failed = append(failed, engine.Left(seedbed.OrphanVolume, v.Pool, v.Name,
				fmt.Errorf("remove volume %s of pool %s: %w", v.Name, v.Pool, err)))
		}
	}
	return errors.Join(failed...)
}

func (t *task) defineDomain(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	disks, err := t.disks(ctx, inst, nil)
	if err != nil {
		return err
	}
	return t.define(ctx, inst, disks, nil)
}

// define defines the instance's domain at the hypervisor, from the document of its script if it has
// one.
func (t *task) define(ctx context.Context, inst seedbed.Instance, disks []seedbed.Disk, doc *seedbed.DomainScript) error {
	spec, err := t.domain(ctx, inst, disks)
	if err != nil {
		return err
	}
	spec.Script = doc
	if err := t.seed(ctx, inst); err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.DefineDomain.Do(ctx, t.Worker(), call, spec)
	})
	if err != nil {
		return fmt.Errorf("define domain %s: %w", inst.Name, err)
	}
	t.Event("info", 100, "domain %s is defined (%s)", inst.Name, inst.ID)
	return nil
}

// domain returns the domain that is requested from the hypervisor.
func (t *task) domain(ctx context.Context, inst seedbed.Instance, disks []seedbed.Disk) (seedbed.DomainSpec, error) {
	networks, err := t.networksOf(ctx, inst)
	if err != nil {
		return seedbed.DomainSpec{}, err
	}
	spec := domainOf(inst, t.Ref.ID, disks, networks)
	if spec.Attached, err = t.attached(ctx, inst); err != nil {
		return spec, err
	}
	if spec.Drive, err = t.drive(ctx, inst); err != nil {
		return spec, err
	}
	spec.Firmware, err = t.firmware(ctx, inst)
	return spec, err
}

// firmware returns what starts an instance: what its row says, or else its image.
func (t *task) firmware(ctx context.Context, inst seedbed.Instance) (seedbed.Firmware, error) {
	from := cmp.Or(inst.Image, inst.CDROM)
	if inst.System.Firmware != "" || from == "" {
		return inst.System.Firmware, nil
	}
	image, err := t.store.Image(ctx, from)
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) { // it could be removed because nothing is a clone of it any more
		return "", fmt.Errorf("image %s: %w", from, engine.FromStore(err))
	}
	return image.Firmware, nil
}

func (t *task) undefineDomain(ctx context.Context) error {
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.UndefineDomain.Do(ctx, t.Worker(), call, effects.DomainRef{ID: t.Job.Instance})
	})
	if err != nil {
		where := ""
		if t.place != "" { // not the node of the job
			where = " on node " + t.place
		}
		return engine.Left(seedbed.OrphanDomain, "", t.domainName(), fmt.Errorf("undefine domain %s%s: %w", t.Job.Subject, where, err))
	}
	t.Event("info", 100, "domain %s is undefined", t.Job.Subject)
	return nil
}

// publish makes the node's guest plane serve the instance, and waits until it does.
func (t *task) publish(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	revision, err := t.publishInstance(ctx, inst)
	if err != nil {
		return err
	}
	done := t.Yield()
	defer done()
	if err := t.applied(ctx, inst.Node, revision); err != nil {
		return err
	}
	t.Event("info", 100, "node %s serves the instance", inst.Node)
	return nil
}

// publishInstance hands the instance to the node's guest plane and returns the revision of the
// record.
func (t *task) publishInstance(ctx context.Context, inst seedbed.Instance) (revision int64, err error) {
	renderer := t.renderer
	docs := seedbed.Documents{UserData: inst.UserData, VendorData: inst.VendorData}
	guest := renderer.Of(inst, seedbed.Guest{})
	switch doc, err := t.store.ScriptDomain(ctx, inst.ID); {
	case err == nil:
		guest = record.AsScripted(guest, inst, doc)
	case !errors.Is(err, seedbed.ErrNotFound):
		return 0, fmt.Errorf("publish: %w", engine.FromStore(err))
	}
	revision, err = t.store.Publish(ctx, t.Ref, inst.Node, guest, docs)
	if err != nil {
		return 0, fmt.Errorf("publish: %w", engine.FromStore(err))
	}
	now, err := t.Instance(ctx)
	if err == nil && now.Revision != inst.Revision {
		// Render the record again, from the instance as it is in that transaction: a change since
		// the instance was read had no record to be applied to.
		revision, err = t.store.Refresh(ctx, inst.Node, inst.ID, renderer.Of)
	}
	if err != nil {
		return 0, fmt.Errorf("publish: %w", engine.FromStore(err))
	}
	t.Event("info", 50, "published as revision %d; waiting for seedbed-metadata on node %s", revision, inst.Node)
	return revision, nil
}

// applied waits until node has applied the revision.
func (t *task) applied(ctx context.Context, node string, revision int64) error {
	for {
		noted := t.store.AppliedHint()
		now, _, err := t.store.Applied(ctx, node)
		if err == nil && now >= revision {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("applied revision of node %s: %w", node, engine.FromStore(err))
		}
		select {
		case <-noted:
		case <-time.After(t.Intervals().Applied): // another process may have been told of it
		case <-ctx.Done():
			return seedbed.Errorf(seedbed.ErrUnavailable, "seedbed-metadata on node %s has not applied revision %d", node, revision)
		}
	}
}

// retract makes the guest plane forget the instance. It does not wait for a guest plane that is
// down: the tombstone is the first thing that it will read, and by then there is no domain left
// that could ask.
func (t *task) retract(ctx context.Context) error {
	node := t.Node()
	revision, err := t.store.Retract(ctx, t.Ref, node, t.Job.Instance)
	if err != nil {
		return fmt.Errorf("retract: %w", engine.FromStore(err))
	}
	done := t.Yield()
	defer done()
	short, cancel := context.WithTimeout(ctx, t.Intervals().Retract)
	defer cancel()
	err = t.applied(short, node, revision)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		t.Event("warn", 100, "%s within %s: it will once it is back", err, t.Intervals().Retract.Round(time.Millisecond))
		return nil
	}
	return err
}

// startDomain starts the domain and then checks it: a guest that dies at once was not started.
func (t *task) startDomain(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	if err := t.seed(ctx, inst); err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.StartDomain.Do(ctx, t.Worker(), call, effects.DomainRef{ID: t.Job.Instance})
	})
	if err != nil {
		return fmt.Errorf("start domain %s: %w", t.Job.Subject, err)
	}
	if err := t.domainRuns(ctx); err != nil {
		return err
	}
	t.Event("info", 100, "domain %s is started", t.Job.Subject)
	return nil
}

func (t *task) destroyDomain(ctx context.Context) error {
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.DestroyDomain.Do(ctx, t.Worker(), call, effects.DomainRef{ID: t.Job.Instance})
	})
	if err != nil {
		return engine.Left(seedbed.OrphanDomain, "", t.domainName(), fmt.Errorf("switch off domain %s: %w", t.Job.Subject, err))
	}
	t.Event("info", 100, "domain %s is off", t.Job.Subject)
	return nil
}

// volumeOf returns what is to be made for a volume of an instance.
func volumeOf(inst seedbed.Instance, v seedbed.Volume) seedbed.VolumeSpec {
	return seedbed.VolumeSpec{
		Pool: v.Pool, Name: v.Name, Instance: inst.ID, Project: inst.Project, Image: v.Image, Size: v.Size,
	}
}

// domainOf returns the domain of an instance. disks are in the order of its volumes; networks has those of its
// NICs, by name.
func domainOf(inst seedbed.Instance, job seedbed.JobID, disks []seedbed.Disk, networks map[string]seedbed.Network) seedbed.DomainSpec {
	spec := seedbed.DomainSpec{
		ID: inst.ID, Name: inst.FullName().String(), VCPUs: inst.VCPUs, Memory: inst.Memory,
		Disks: disks, Profile: inst.Profile, Project: inst.Project, Job: job, Datasource: inst.Datasource, System: &inst.System,
		CDROM: inst.Metadata.By == seedbed.MetadataCDROM,
	}
	for _, nic := range inst.NICs {
		if nic.State == seedbed.NICAttached {
			spec.NICs = append(spec.NICs, domainNIC(inst.System, nic, networks[nic.Network]))
		}
	}
	return spec
}

// domainNIC returns a NIC as its domain has it, in network n.
func domainNIC(system seedbed.System, nic seedbed.NIC, n seedbed.Network) seedbed.DomainNIC {
	made := seedbed.DomainNIC{MAC: nic.MAC, Added: nic.Added, Boot: nic.Index == 0 && system.BootFrom == seedbed.BootNetwork}
	if n.Kind == seedbed.NetworkDirect {
		made.Uplink, made.Mode, made.VLAN = n.Uplink, n.Mode, n.VLAN
		return made
	}
	made.Tap, made.Bridge, made.MTU = nic.ID.Tap(), n.Bridge, n.MTU
	return made
}

// madeVolumes returns the volumes of the job's instance.
func (t *task) madeVolumes(ctx context.Context) (all []seedbed.Orphan) {
	inst, err := t.scripting(ctx)
	if err != nil {
		return nil // the stage is reported
	}
	for _, v := range inst.Volumes {
		all = append(all, seedbed.Orphan{Kind: seedbed.OrphanVolume, Pool: v.Pool, Name: v.Name})
	}
	return all
}

// madeDomain returns the domain of the job's instance.
func (t *task) madeDomain(context.Context) []seedbed.Orphan {
	return []seedbed.Orphan{{Kind: seedbed.OrphanDomain, Name: t.domainName()}}
}

// domainName returns the name of the domain of the job's instance.
func (t *task) domainName() string { return t.Job.FullSubject().String() }
