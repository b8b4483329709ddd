package plans

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// plugged is why what comes before a NIC's attachment is not undone: without its filters, the guest must not have it.
const plugged = "not undone, because the guest may still have the NIC: remove it once the guest lets go of it (seedbed vm nic remove)"

// nicAddPlan gives an instance a further NIC. Its filters are in place before its guest has it, and the metadata names it
// once the guest has.
func (t *task) nicAddPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "publish-nic", Run: t.publishNIC, Undo: strict(t.dropNIC)},
		{Name: "plug", Run: t.plugNIC, Undo: strict(t.unplugNIC), Guards: plugged},
		{Name: "show-nic", Run: t.nicState(seedbed.NICAttached), Undo: strict(t.nicState(seedbed.NICAttaching))},
	}}
}

// nicRemovePlan takes a NIC from an instance. Its filters and its addresses go last, when no guest has it any more.
func (t *task) nicRemovePlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "hide-nic", Run: t.hideNIC(false), Undo: strict(t.nicAsItWas)},
		{Name: "unplug", Run: t.unplugNIC, Undo: strict(t.plugNICAgain)},
		{Name: "drop-nic", Run: t.dropNIC, Final: true},
	}}
}

// nicSetPlan takes a NIC to another network: its guest sees it go, and come again with the same MAC address.
func (t *task) nicSetPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "hide-nic", Run: t.hideNIC(true), Undo: strict(t.nicState(seedbed.NICAttached))},
		{Name: "unplug", Run: t.unplugNIC, Undo: strict(t.plugNIC)},
		{Name: "switch-nic", Run: t.switchNIC, Undo: strict(t.switchNICBack),
			Guards: "not undone, because the NIC could not go back to its network"},
		{Name: "plug", Run: t.plugNIC, Undo: strict(t.unplugNIC), Guards: plugged},
		{Name: "show-nic", Run: t.nicState(seedbed.NICAttached), Undo: strict(t.nicState(seedbed.NICDetaching))},
	}}
}

func (t *task) nicSpec() (spec seedbed.NICJob, err error) {
	if err := t.input(&spec); err != nil {
		return spec, err
	}
	return spec, nil
}

// nic returns the instance and the NIC that the job works on. ok is false if the instance does not have it.
func (t *task) nic(ctx context.Context) (inst seedbed.Instance, nic seedbed.NIC, ok bool, err error) {
	spec, err := t.nicSpec()
	if err != nil {
		return inst, nic, false, err
	}
	if inst, err = t.Instance(ctx); err != nil {
		return inst, nic, false, err
	}
	nic, ok = spec.NICOf(inst)
	return inst, nic, ok, nil
}

// ownNIC is nic for a job that cannot go on without its NIC: it returns ErrConflict if the instance does not have it.
func (t *task) ownNIC(ctx context.Context) (seedbed.Instance, seedbed.NIC, error) {
	inst, nic, ok, err := t.nic(ctx)
	if err == nil && !ok {
		err = seedbed.Errorf(seedbed.ErrConflict, "instance %q no longer has the NIC of the job", t.Job.Subject)
	}
	return inst, nic, err
}

// reapplied makes the node's guest plane serve the instance as it is, and waits until it does.
func (t *task) reapplied(ctx context.Context) error {
	revision, err := t.refresh(ctx, t.Node(), t.Job.Instance)
	if err != nil {
		return err
	}
	done := t.Yield()
	defer done()
	return t.applied(ctx, t.Node(), revision)
}

// reappliedSoon is reapplied that does not wait long for a guest plane that is down.
func (t *task) reappliedSoon(ctx context.Context) error {
	revision, err := t.refresh(ctx, t.Node(), t.Job.Instance)
	if err != nil {
		return err
	}
	return t.appliedSoon(ctx, t.Node(), revision, t.Intervals().Retract, "it will once it is back")
}

// nicState returns a function that records how far the job has got with its NIC, and waits until the guest plane serves that, if it is not
// down: once the job has ended, the metadata tells of it.
func (t *task) nicState(to seedbed.NICState) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.SetNIC(ctx, t.Ref, to) }); err != nil {
			return fmt.Errorf("record the NIC: %w", err)
		}
		return t.reappliedSoon(ctx)
	}
}

// hideNIC returns a function that takes the job's NIC out of the metadata. comesBack is true if the domain is to have it again.
func (t *task) hideNIC(comesBack bool) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := t.canPlug(ctx, comesBack); err != nil {
			return err
		}
		return t.nicState(seedbed.NICDetaching)(ctx)
	}
}

// canPlug returns an error if the worker of the job's node is too old to attach and detach NICs, and ErrNotFound if a domain is needed
// and there is none. So such a job fails before it has changed anything.
func (t *task) canPlug(ctx context.Context, defined bool) error {
	if defined {
		if _, err := effects.DomainState.Ask(ctx, t.Worker(), effects.DomainRef{ID: t.Job.Instance}); err != nil {
			return fmt.Errorf("look for domain %s: %w", t.Job.Subject, err)
		}
	}
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.DetachNIC.Do(ctx, t.Worker(), call, effects.NICRef{ID: t.Job.Instance}) // no NIC has the zero address
	})
	if err != nil {
		return fmt.Errorf("see whether node %s can attach and detach NICs: %w", t.Node(), err)
	}
	return nil
}

// nicAsItWas undoes the first stage of the removal of a NIC.
func (t *task) nicAsItWas(ctx context.Context) error {
	spec, err := t.nicSpec()
	if err != nil {
		return err
	}
	return t.nicState(spec.Was)(ctx)
}

// plugNICAgain undoes the detachment of a NIC that was attached before the job.
func (t *task) plugNICAgain(ctx context.Context) error {
	spec, err := t.nicSpec()
	if err != nil || spec.Was != seedbed.NICAttached {
		return err
	}
	return t.plugNIC(ctx)
}

// publishNIC puts the filters of a new NIC in place, whose addresses no other host may use.
func (t *task) publishNIC(ctx context.Context) error {
	if err := t.canPlug(ctx, true); err != nil {
		return err
	}
	err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.SetNIC(ctx, t.Ref, seedbed.NICAttaching) })
	if err != nil {
		return fmt.Errorf("record the NIC: %w", err)
	}
	return t.filterNIC(ctx)
}

// filterNIC waits until the filters of the job's NIC are in place, and looks whether its addresses are free.
func (t *task) filterNIC(ctx context.Context) error {
	if err := t.reapplied(ctx); err != nil {
		return err
	}
	inst, nic, err := t.ownNIC(ctx)
	if err != nil {
		return err
	}
	t.Event("info", 50, "node %s filters NIC %d (%s) in network %s", t.Node(), nic.Index, nic.MAC, nic.Network)
	inst.NICs = []seedbed.NIC{nic}
	return t.probe(ctx, inst)
}

// dropNIC deletes the job's NIC, which no guest has, and then its filters. It does not wait for a guest plane that is down.
func (t *task) dropNIC(ctx context.Context) error {
	_, nic, had, err := t.nic(ctx)
	if err != nil {
		return err
	}
	if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.DropNIC(ctx, t.Ref) }); err != nil {
		return fmt.Errorf("delete the NIC: %w", err)
	}
	if had {
		t.Event("info", 50, "NIC %d (%s) is deleted, and its address in network %s is free", nic.Index, nic.MAC, nic.Network)
	}
	if with := nic.Releases(); with != "" {
		t.Event("info", 50, "released with it: %s", with)
	}
	return t.reappliedSoon(ctx)
}

// plugNIC attaches the job's NIC to the domain: to its definition and, if it runs, to its guest.
func (t *task) plugNIC(ctx context.Context) error {
	inst, nic, err := t.ownNIC(ctx)
	if err != nil {
		return err
	}
	inst.NICs = []seedbed.NIC{nic}
	networks, err := t.networksOf(ctx, inst)
	if err != nil {
		return err
	}
	device := domainNIC(inst.System, nic, networks[nic.Network])
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.AttachNIC.Do(ctx, t.Worker(), call, effects.NICAttachment{ID: t.Job.Instance, NIC: device})
	})
	if err != nil {
		return fmt.Errorf("attach NIC %d to domain %s: %w", nic.Index, t.Job.Subject, err)
	}
	t.Event("info", 100, "NIC %d (%s) is attached to domain %s", nic.Index, nic.MAC, t.Job.Subject)
	return nil
}

// unplugNIC takes the job's NIC from the domain, once its guest has let go of it.
func (t *task) unplugNIC(ctx context.Context) error {
	spec, err := t.nicSpec()
	if err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.DetachNIC.Do(ctx, t.Worker(), call, effects.NICRef{ID: t.Job.Instance, MAC: spec.MAC})
	})
	if err != nil {
		return fmt.Errorf("detach NIC %d from domain %s: %w", spec.Index, t.Job.Subject, err)
	}
	t.Event("info", 100, "NIC %d (%s) is detached from domain %s", spec.Index, spec.MAC, t.Job.Subject)
	return nil
}

// switchNIC takes the job's NIC, which no guest has, to its new network.
func (t *task) switchNIC(ctx context.Context) error {
	spec, err := t.nicSpec()
	if err != nil {
		return err
	}
	if err := t.moveNIC(ctx, spec.Network); err != nil {
		return err
	}
	return t.filterNIC(ctx)
}

func (t *task) switchNICBack(ctx context.Context) error {
	spec, err := t.nicSpec()
	if err != nil {
		return err
	}
	if err := t.moveNIC(ctx, spec.From); err != nil {
		return err
	}
	return t.reapplied(ctx)
}

func (t *task) moveNIC(ctx context.Context, network string) error {
	if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.MoveNIC(ctx, t.Ref, network) }); err != nil {
		return fmt.Errorf("take the NIC to network %s: %w", network, err)
	}
	return nil
}
