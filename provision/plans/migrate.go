package plans

import (
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// migratePlan takes an instance to another node. The other node serves it before its domain gets there, and its own until then. A guest
// that runs is either switched off for that, or migrated by the hypervisors. The domain is never active on both nodes: it is started there
// only once it is off, and undefined, here; nor does it start with a node before that.
func (t *task) migratePlan() engine.Plan {
	spec, _ := t.migrating() // a spec that cannot be parsed fails the first stage
	there := func(do func(context.Context) error) func(context.Context) error { return t.at(spec.To, do) }
	publish := engine.Stage{Name: "publish", Run: t.arrive, Undo: there(t.retract)}
	define := engine.Stage{Name: "define", Run: t.copyThere, Undo: there(t.undefineDomain), Made: t.madeAt(spec.To)}
	if spec.Lost {
		return t.lostPlan(publish, spec)
	}
	if spec.Live { // once the guest runs there, the job goes on until the instance is there, too
		return engine.Plan{Stages: []engine.Stage{
			publish, define,
			{Name: "migrate", Run: t.migrateThere, Undo: strict(t.migrateBack),
				Guards: "not undone, because the guest could not be brought back to its node"},
			{Name: "leave", Run: t.leaveLive, Final: true},
		}}
	}
	move := engine.Stage{Name: "move", Run: t.moveThere, Undo: strict(t.moveBack),
		Guards: "not undone, because the instance could not be taken back to its node"}
	leave := engine.Stage{Name: "leave", Run: t.leave, Undo: strict(t.copyBack),
		Guards: "not undone, because the domain could not be defined on its node again"}
	if spec.Was == seedbed.InstanceStopped {
		return engine.Plan{Restores: spec.Was, Stages: []engine.Stage{publish, define, move, leave}}
	}
	return engine.Plan{
		Restores: spec.Was,
		Stages: []engine.Stage{
			{Name: "shutdown", Run: t.shutdownGuest, Limit: t.shutdownLimit, Undo: strict(t.reassure)},
			{Name: "stop", Run: t.switchOff, Undo: strict(t.switchOn), State: seedbed.InstanceStopped},
			publish, define, move, leave,
			{Name: "start", Run: there(t.startThere), Undo: there(t.destroyDomain),
				Guards: "not undone, because the domain could not be switched off"},
		},
	}
}

// migrating returns the input of a migrate job.
func (t *task) migrating() (spec seedbed.MigrateSpec, err error) {
	if len(t.Job.Spec) == 0 {
		return spec, nil
	}
	err = t.input(&spec)
	return spec, err
}

// at returns do for what the job does on that node.
func (t *task) at(node string, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		was := t.place
		t.place = node
		defer func() { t.place = was }()
		return engine.On(node, do(ctx))
	}
}

// madeAt returns the domain that the job makes on a node.
func (t *task) madeAt(node string) func(context.Context) []seedbed.Orphan {
	return func(context.Context) []seedbed.Orphan {
		return []seedbed.Orphan{{Kind: seedbed.OrphanDomain, Node: node, Name: t.domainName()}}
	}
}

// arrive makes the other node serve the instance as well, and waits until it does. Before, it checks that the node has the volumes.
func (t *task) arrive(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	if err := t.at(spec.To, func(ctx context.Context) error { return t.hasVolumes(ctx, inst) })(ctx); err != nil {
		return err
	}
	revision, err := t.store.Arrive(ctx, t.Ref, spec.To, inst.ID)
	if err != nil {
		return fmt.Errorf("publish: %w", engine.FromStore(err))
	}
	t.Event("info", 50, "published as revision %d; waiting for seedbed-metadata on node %s", revision, spec.To)
	done := t.Yield()
	defer done()
	if err := t.applied(ctx, spec.To, revision); err != nil {
		return err
	}
	t.Event("info", 100, "node %s serves the instance, too", spec.To)
	return nil
}

// hasVolumes returns ErrConflict unless the node has the instance's volumes. That nodes share a pool is what their configurations say; a
// volume that is not there would be replaced by nothing.
func (t *task) hasVolumes(ctx context.Context, inst seedbed.Instance) error {
	refs := make([]effects.VolumeRef, 0, len(inst.Volumes)+len(inst.Attached))
	for _, v := range inst.Volumes {
		refs = append(refs, effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: inst.ID})
	}
	for _, v := range inst.Attached {
		refs = append(refs, effects.VolumeRef{Pool: v.Pool, Name: v.Volume, Instance: v.Owner})
	}
	for _, v := range refs {
		_, err := effects.Volume.Ask(ctx, t.Worker(), v)
		if errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrConflict) {
			return seedbed.Errorf(seedbed.ErrConflict,
				"node %s does not have volume %s of pool %s: is the pool the same storage on both nodes? (%v)", t.Node(), v.Name, v.Pool, err)
		}
		if err != nil {
			return fmt.Errorf("volume %s of pool %s on node %s: %w", v.Name, v.Pool, t.Node(), err)
		}
	}
	_, err := t.drive(ctx, inst)
	return err
}

// copyThere defines the domain on the other node, as it is here.
func (t *task) copyThere(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	return t.copyDomain(ctx, spec.From, spec.To, spec.Live)
}

// copyBack defines the domain here, as it is on the other node.
func (t *task) copyBack(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	if err := t.setAutostart(ctx, spec.To, false); err != nil {
		return err
	}
	_, exists, err := t.domainNow(ctx)
	if err == nil && !exists {
		err = t.copyDomain(ctx, spec.To, spec.From, false)
	}
	if err != nil {
		return err
	}
	return t.setAutostart(ctx, spec.From, true)
}

// copyDomain defines the domain on node to, as it is on node from, with its CD-ROM. Without the console, what node to shows of it does not
// change.
func (t *task) copyDomain(ctx context.Context, from, to string, withoutConsole bool) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	found, err := effects.CopyDomain.Ask(ctx, t.WorkerOf(from), effects.DomainRef{ID: inst.ID})
	if errors.Is(err, seedbed.ErrNotFound) {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s is not defined on node %s", inst.Name, from)
	}
	if err != nil {
		return fmt.Errorf("domain %s on node %s: %w", inst.Name, from, err)
	}
	if withoutConsole {
		found.Console = nil
	}
	return t.at(to, func(ctx context.Context) error {
		if err := t.seed(ctx, inst); err != nil {
			return err
		}
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.ReceiveDomain.Do(ctx, t.Worker(), call, found)
		})
		if err != nil {
			return fmt.Errorf("define domain %s on node %s: %w", inst.Name, to, err)
		}
		t.Event("info", 100, "domain %s is defined on node %s", inst.Name, to)
		return nil
	})(ctx)
}

// moveThere makes the other node that of the instance.
func (t *task) moveThere(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	return t.move(ctx, spec.To, spec.Home)
}

// moveBack makes the node that it came from the instance's again.
func (t *task) moveBack(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	return t.move(ctx, spec.From, spec.WasHome)
}

// move makes a node that of the instance, and waits until that node serves it as its own.
func (t *task) move(ctx context.Context, node, home string) error {
	revision, err := t.store.Move(ctx, t.Ref, node, home, t.Job.Instance, t.renderer.Of)
	if err != nil {
		return fmt.Errorf("publish: %w", engine.FromStore(err))
	}
	t.Event("info", 50, "the instance is on node %s now", node)
	done := t.Yield()
	defer done()
	return t.applied(ctx, node, revision)
}

// startThere starts the domain on the other node.
func (t *task) startThere(ctx context.Context) error {
	if err := t.restartDomain(ctx); err != nil {
		return err
	}
	t.Result.State = seedbed.InstanceRunning
	return nil
}

// activeAt returns the state of the domain on a node; empty unless it runs or is paused there.
func (t *task) activeAt(ctx context.Context, node string) (state seedbed.DomainState, err error) {
	err = t.at(node, func(ctx context.Context) error {
		info, _, err := t.domainNow(ctx)
		if info.State == seedbed.DomainRunning || info.State == seedbed.DomainPaused {
			state = info.State
		}
		return err
	})(ctx)
	return state, err
}

// migrateThere migrates the guest to the other node.
func (t *task) migrateThere(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	if err := t.setAutostart(ctx, spec.From, false); err != nil {
		return err
	}
	return t.carry(ctx, spec.From, spec.To)
}

// migrateBack ends the migration, or migrates the guest back if it has succeeded.
func (t *task) migrateBack(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.StopMigration.Do(ctx, t.WorkerOf(spec.From), call, effects.DomainRef{ID: t.Job.Instance})
	})
	if err != nil {
		return fmt.Errorf("stop the migration of domain %s: %w", t.Job.Subject, err)
	}
	here, err := t.activeAt(ctx, spec.From)
	if err != nil {
		return err
	}
	there := seedbed.DomainState("")
	if here != seedbed.DomainRunning { // else it does not run there: libvirt lets a guest run again only once it has given up
		if there, err = t.activeAt(ctx, spec.To); err != nil {
			return err
		}
	}
	switch {
	case here != "" && there != "": // libvirt there still ends it
		return seedbed.Errorf(seedbed.ErrInUse, "the migration of domain %s has not ended", t.Job.Subject)
	case there != "":
		if err := t.carry(ctx, spec.To, spec.From); err != nil {
			return err
		}
	case here == "":
		t.Event("warn", 100, "the guest has gone off in the meantime")
	case here == seedbed.DomainPaused: // by a migration that was cut off
		err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.StartDomain.Do(ctx, t.WorkerOf(spec.From), call, effects.DomainRef{ID: t.Job.Instance})
		})
		if err != nil {
			return fmt.Errorf("resume domain %s: %w", t.Job.Subject, err)
		}
	}
	if here != "" {
		t.Event("info", 100, "the guest runs on node %s as before", spec.From)
	}
	return t.setAutostart(ctx, spec.From, true)
}

// carry migrates the guest from one node to another. Where the domain is shows what an earlier attempt has come to.
func (t *task) carry(ctx context.Context, from, to string) error {
	here, err := t.activeAt(ctx, from)
	if err != nil {
		return err
	}
	there, err := t.activeAt(ctx, to)
	switch {
	case err != nil:
		return err
	case there != "" && here == "":
		t.Event("info", 100, "the guest runs on node %s", to)
		return nil
	case there == "" && here == "":
		return seedbed.Errorf(seedbed.ErrConflict, "the guest of domain %s has gone off, so it cannot be migrated", t.Job.Subject)
	}
	target, err := t.migrationTo(to)
	if err != nil {
		return err
	}
	t.Event("info", 0, "migrating the guest from node %s to node %s", from, to)
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.MigrateDomain.Do(ctx, t.WorkerOf(from), call, seedbed.Migration{ID: t.Job.Instance, MigrationTarget: target},
			effects.OnProgress(t.percent("migrating")))
		return err
	})
	if err != nil && engine.Unavailable(err) {
		return fmt.Errorf("migrate domain %s to node %s: %w", t.Job.Subject, to, err)
	}
	left := err // the hypervisor may have failed only in the end
	if here, err = t.activeAt(ctx, from); err != nil {
		return err
	}
	if there, err = t.activeAt(ctx, to); err != nil {
		return err
	}
	switch {
	case there != "" && here == "":
		t.Event("info", 100, "the guest runs on node %s", to)
		return nil
	case left != nil:
		return fmt.Errorf("migrate domain %s to node %s: %w", t.Job.Subject, to, left)
	}
	return seedbed.Errorf(seedbed.ErrConflict, "domain %s was migrated to node %s, and does not run there", t.Job.Subject, to)
}

// migrationTo returns how a node takes guests that run, as it reported it.
func (t *task) migrationTo(node string) (seedbed.MigrationTarget, error) {
	for _, n := range t.Nodes() {
		if n.Name == node && n.Report.Migration.URI != "" {
			return n.Report.Migration, nil
		}
	}
	return seedbed.MigrationTarget{}, seedbed.Errorf(seedbed.ErrConflict,
		"node %s does not say how guests that run come to it: set libvirt.migration in its configuration", node)
}

// leaveLive makes the other node that of the instance, whose guest runs there, and removes what is left of the domain here, once the
// console of the time here is there.
func (t *task) leaveLive(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	if err := t.moveThere(ctx); err != nil {
		return err
	}
	left, err := effects.CopyDomain.Ask(ctx, t.WorkerOf(spec.From), effects.DomainRef{ID: t.Job.Instance})
	if err == nil {
		err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.ReceiveDomain.Do(ctx, t.WorkerOf(spec.To), call, left)
		})
	}
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		return fmt.Errorf("keep the console of domain %s: %w", t.Job.Subject, err)
	}
	return t.leave(ctx)
}

// leave undefines the domain on its former node.
func (t *task) leave(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	if inst.Node != spec.To {
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q is on node %s now", inst.Name, inst.Node)
	}
	if err := t.undefineDomain(ctx); err != nil {
		return err
	}
	return t.setAutostart(ctx, spec.To, true)
}
