package store

import (
	"context"
	"encoding/json"
	"slices"

	"seedbed"
	"seedbed/store/feed"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// checkNICJob validates a job on a NIC. ok is false for a job of another kind.
func checkNICJob(a seedbed.Acceptance) (ok bool, err error) {
	switch {
	case !a.Job.Kind.OfNIC():
		return false, nil
	case a.NIC == nil || a.NIC.MAC == (seedbed.MAC{}):
		return true, seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs a NIC with a MAC address", a.Job.Kind)
	case a.NIC.MAC[0]&1 != 0:
		return true, seedbed.Errorf(seedbed.ErrInvalid, "MAC address %s is not a unicast address", a.NIC.MAC)
	}
	_, err = seedbed.ParseInstanceID(string(a.Job.Instance))
	return true, err
}

// holderOfNIC returns an instance with the NIC of an acceptance, by which the networks and groups are found that it locks.
func holderOfNIC(a seedbed.Acceptance) *seedbed.Instance {
	if a.NIC == nil {
		return a.Instance
	}
	i := seedbed.Instance{Project: a.Job.Project, NICs: []seedbed.NIC{*a.NIC}}
	if i.NICs[0].Network == "" {
		i.NICs = nil // it is removed
	}
	return &i
}

// acceptNIC completes the row of a job on a NIC, and records what becomes of the NIC.
func (db *DB) acceptNIC(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance) error {
	if err := acceptVolumeJob(ctx, b.Tx, &a.Job); err != nil {
		return err
	}
	inst, err := instances.ReadOne(ctx, b.Tx, a.Job.Instance)
	if err != nil {
		return err
	}
	var spec seedbed.NICJob
	switch a.Job.Kind {
	case seedbed.JobNICAdd:
		spec, err = db.acceptNICAdd(ctx, b, a, inst)
	case seedbed.JobNICRemove:
		spec, err = db.acceptNICRemove(ctx, b, a, inst)
	default:
		spec, err = db.acceptNICSet(ctx, b, a, inst)
	}
	if err != nil {
		return err
	}
	a.Job.Spec, err = json.Marshal(spec)
	return err
}

func (db *DB) acceptNICAdd(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance, inst seedbed.Instance) (
	spec seedbed.NICJob, err error,
) {
	n := *a.NIC
	n.State, n.Added = seedbed.NICPromised, true
	if n.Index, err = inst.FreeNIC(); err != nil {
		return spec, err
	}
	if err := holdAddresses(ctx, b, inst, n); err != nil {
		return spec, err
	}
	if err := db.AddNIC(ctx, b, a.Job.ID, inst, n); err != nil {
		return spec, err
	}
	if inst, err = instances.ReadOne(ctx, b.Tx, inst.ID); err != nil {
		return spec, err
	}
	at := seedbed.NICAt(inst.NICs, n.Index)
	if at < 0 {
		return spec, seedbed.Errorf(seedbed.ErrConflict, "NIC %d was not added", n.Index)
	}
	added := inst.NICs[at]
	return seedbed.NICJob{NIC: added.ID, Index: n.Index, MAC: n.MAC, Network: n.Network, Addr: added.Addr}, nil
}

// holdAddresses returns ErrForbidden if the addresses of a further NIC, together with what its token and its project have, exceed a quota.
func holdAddresses(ctx context.Context, b *groupcommit.Batch, inst seedbed.Instance, n seedbed.NIC) error {
	wants := seedbed.Use{Addresses: int64(instances.Addresses([]seedbed.NIC{n}))}
	return holdUse(ctx, b, seedbed.Instance{Project: inst.Project, Token: inst.Token}, wants)
}

// nicOf returns the NIC of an instance that an acceptance is about.
func nicOf(inst seedbed.Instance, a *seedbed.Acceptance) (seedbed.NIC, error) {
	at := seedbed.NICAt(inst.NICs, a.NIC.Index)
	if at < 0 || inst.NICs[at].MAC != a.NIC.MAC {
		return seedbed.NIC{}, seedbed.Errorf(seedbed.ErrNotFound, "instance %q has no NIC %d with the MAC address %s", inst.Name, a.NIC.Index,
			a.NIC.MAC)
	}
	return inst.NICs[at], nil
}

// networkIn returns a function that finds a network. It locks none: what the caller looks at does not change while NICs are there.
func networkIn(ctx context.Context, tx *sqldb.Tx) func(string) (seedbed.Network, error) {
	return func(name string) (seedbed.Network, error) { return instances.ReadNetwork(ctx, tx, name) }
}

func (db *DB) acceptNICRemove(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance, inst seedbed.Instance) (
	spec seedbed.NICJob, err error,
) {
	n, err := nicOf(inst, a)
	if err != nil {
		return spec, err
	}
	if err := inst.Removable(n); err != nil {
		return spec, err
	}
	if err := inst.KeepsMetadata(inst.Without(n.Index), networkIn(ctx, b.Tx)); err != nil {
		return spec, err
	}
	return seedbed.NICJob{NIC: n.ID, Index: n.Index, MAC: n.MAC, From: n.Network, FromAddr: n.Addr, Was: n.State}, db.ReleaseKept(ctx, b.Tx,
		inst.ID, n.Index)
}

func (db *DB) acceptNICSet(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance, inst seedbed.Instance) (
	spec seedbed.NICJob, err error,
) {
	n, err := nicOf(inst, a)
	if err != nil {
		return spec, err
	}
	to, err := instances.NetworkNamed(ctx, b, a.NIC.Network)
	if err != nil {
		return spec, err
	}
	switch {
	case n.State != seedbed.NICAttached:
		return spec, seedbed.Errorf(seedbed.ErrConflict,
			"NIC %d of instance %q is %s, since a job has left it so: remove it (seedbed vm nic remove "+
				"%s %d)", n.Index, inst.Name, n.State, inst.Name, n.Index)
	case n.Network == to.Name:
		return spec, seedbed.Errorf(seedbed.ErrConflict, "NIC %d of instance %q is in network %q already: expected another",
			n.Index, inst.Name, to.Name)
	}
	if err := n.Movable(inst.Name); err != nil {
		return spec, err
	}
	from, err := instances.ReadNetwork(ctx, b.Tx, n.Network)
	if err != nil {
		return spec, err
	}
	spec = seedbed.NICJob{NIC: n.ID, Index: n.Index, MAC: n.MAC, Network: to.Name, From: n.Network, FromAddr: n.Addr}
	moved := n
	moved.Network, moved.Groups = to.Name, instances.JoinedAt(b, inst.Project, n, from, to)
	if err := to.Keeps(moved); err != nil { // and once more when it goes there
		return spec, err
	}
	if err := inst.KeepsMetadata(append(inst.Without(n.Index), moved), networkIn(ctx, b.Tx)); err != nil {
		return spec, err
	}
	spec.Addr, err = db.KeepNIC(ctx, b, inst, n, to, a.NIC.Addr)
	return spec, err
}

// nicJob holds a job on a NIC, and returns it with its input.
func nicJob(ctx context.Context, tx *sqldb.Tx, ref seedbed.JobRef, kinds ...seedbed.JobKind) (j seedbed.Job, spec seedbed.NICJob,
	err error) {
	if j, err = jobs.Hold(ctx, tx, ref); err != nil {
		return j, spec, err
	}
	if !slices.Contains(kinds, j.Kind) || j.State != seedbed.JobRunning && j.State != seedbed.JobUndoing {
		return j, spec, seedbed.Errorf(seedbed.ErrConflict, "job %s is a %s job and %s: it does not change a NIC so", j.ID.Short(),
			j.Kind, j.State)
	}
	return j, spec, readSpec(j, &spec)
}

// goneNIC is the error of a job whose NIC its instance no longer has.
func goneNIC(j seedbed.Job, spec seedbed.NICJob) error {
	return seedbed.Errorf(seedbed.ErrConflict,
		"instance %q no longer has the NIC %d that had the MAC address %s, so %s job %s cannot go on", j.Subject,
		spec.Index, spec.MAC, j.Kind, j.ID.Short())
}

// SetNIC records how far a job has got with its NIC. It may be repeated.
func (db *DB) SetNIC(ctx context.Context, ref seedbed.JobRef, to seedbed.NICState) error {
	return db.sql.Update(ctx, "set NIC", func(tx *sqldb.Tx) error {
		j, spec, err := nicJob(ctx, tx, ref, seedbed.JobNICAdd, seedbed.JobNICRemove, seedbed.JobNICSet)
		if err != nil {
			return err
		}
		_, n, err := instances.NICOf(ctx, tx, j.Instance, spec, goneNIC(j, spec))
		switch {
		case err != nil:
			return err
		case n.State == to:
			return sqldb.ErrUnchanged
		}
		return instances.SetNICState(ctx, tx, j.Instance, n, to)
	})
}

// MoveNIC takes the NIC of a job to a network: the one that the job takes it to, or the one that it comes from. It may be repeated. It
// returns ErrInUse for a NIC that has got what belongs to its network since the job was accepted, and ErrInvalid or ErrConflict if it
// cannot be in the network as both are now.
func (db *DB) MoveNIC(ctx context.Context, ref seedbed.JobRef, network string) error {
	return db.sql.Update(ctx, "move NIC", func(tx *sqldb.Tx) error {
		j, spec, err := nicJob(ctx, tx, ref, seedbed.JobNICSet)
		if err != nil {
			return err
		}
		back := network == spec.From
		if !back && network != spec.Network {
			return seedbed.Errorf(seedbed.ErrInvalid, "job %s takes no NIC to network %q", j.ID.Short(), network)
		}
		b := groupcommit.Alone(tx)
		if err := instances.LockNetworks(ctx, b, []string{spec.From, spec.Network}); err != nil {
			return err
		}
		joins := seedbed.Instance{Project: j.Project, NICs: []seedbed.NIC{{}, {Groups: spec.FromGroups}}}
		if err := instances.LockSecurityGroups(ctx, b, instances.SecurityGroupsOf(&joins)); err != nil {
			return err
		}
		inst, n, err := instances.NICOf(ctx, tx, j.Instance, spec, goneNIC(j, spec))
		switch {
		case err != nil:
			return err
		case n.Network == network:
			return sqldb.ErrUnchanged
		}
		if err := n.Movable(inst.Name); err != nil {
			return err
		}
		moved, err := movedNIC(ctx, b, inst, n, network, spec)
		if err != nil {
			return err
		}
		if !back {
			spec.FromGroups = n.Groups // as they are now, and not as they were when the job was accepted
			if err := jobs.SetSpec(ctx, tx, j.ID, spec); err != nil {
				return err
			}
		}
		if err := feed.DropLeaseOf(ctx, tx, n.MAC); err != nil { // its guest has it of the network that it leaves
			return err
		}
		return instances.MoveNIC(ctx, tx, inst, n, moved)
	})
}

// movedNIC returns the NIC of a job as it is in one of the job's two networks. The networks are locked, and the groups that it may join.
func movedNIC(
	ctx context.Context, b *groupcommit.Batch, inst seedbed.Instance, n seedbed.NIC, network string, spec seedbed.NICJob,
) (seedbed.NIC, error) {
	from, err := instances.NetworkNamed(ctx, b, n.Network)
	if err != nil {
		return n, err
	}
	to, err := instances.NetworkNamed(ctx, b, network)
	if err != nil {
		return n, err
	}
	moved := n
	moved.Network, moved.Addr, moved.Groups = network, spec.Addr, instances.JoinedAt(b, inst.Project, n, from, to)
	if network == spec.From {
		moved.Addr = spec.FromAddr
	}
	if network == spec.From && from.Kind.Served() != to.Kind.Served() {
		moved.Groups = spec.FromGroups
		if err := instances.CheckJoined(b, inst.Project, moved); err != nil {
			return n, err
		}
	}
	if moved.Addr.IsValid() != to.Prefix.IsValid() {
		return n, seedbed.Errorf(seedbed.ErrConflict, "network %q is no longer the one that NIC %d of instance %q was to go to: it was removed, "+
			"and made again", to.Name, n.Index, inst.Name)
	}
	return moved, to.Keeps(moved)
}

// DropNIC deletes the NIC of a job that has removed it, or that has added it and is undone. It may be repeated.
func (db *DB) DropNIC(ctx context.Context, ref seedbed.JobRef) error {
	return db.sql.Update(ctx, "drop NIC", func(tx *sqldb.Tx) error {
		j, spec, err := nicJob(ctx, tx, ref, seedbed.JobNICAdd, seedbed.JobNICRemove)
		if err != nil {
			return err
		}
		return db.dropNIC(ctx, tx, j, spec)
	})
}

// dropNIC deletes the NIC of a job, if it is there.
func (db *DB) dropNIC(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, spec seedbed.NICJob) error {
	_, n, err := instances.NICOf(ctx, tx, j.Instance, spec, sqldb.ErrUnchanged)
	if err != nil {
		return err
	}
	if err := db.DeleteNIC(ctx, tx, j.Instance, n); err != nil {
		return err
	}
	return feed.DropLeaseOf(ctx, tx, n.MAC)
}

// endNIC records what the end of a job means for the NIC that it worked on.
func (db *DB) endNIC(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, in seedbed.JobState) error {
	if !j.Kind.OfNIC() || in == seedbed.JobFailed { // which may be resumed, and then needs what is kept
		return nil
	}
	var spec seedbed.NICJob
	if err := readSpec(j, &spec); err != nil {
		return err
	}
	if j.Kind == seedbed.JobNICAdd && in == seedbed.JobRolledBack { // also one that was cancelled before it began
		if err := db.dropNIC(ctx, tx, j, spec); err != nil && err != sqldb.ErrUnchanged {
			return err
		}
		return nil
	}
	if in == seedbed.JobIncomplete { // unless its undo is still to take it back
		_, n, err := instances.NICOf(ctx, tx, j.Instance, spec, nil)
		if err != nil || n.Network != spec.From || n.State != seedbed.NICAttached {
			return err
		}
	}
	return db.ReleaseKept(ctx, tx, j.Instance, spec.Index)
}

// resumableNIC returns ErrConflict if the NIC of a job is no longer that of the job's instance.
func resumableNIC(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	var spec seedbed.NICJob
	if err := readSpec(j, &spec); err != nil {
		return err
	}
	_, _, err := instances.NICOf(ctx, tx, j.Instance, spec, goneNIC(j, spec))
	return err
}
