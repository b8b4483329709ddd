package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// Snapshot accepts a request to take the snapshot called snapshot of the volumes of the instance
// name. Errors: ErrInvalid for a name that cannot be used, and otherwise those of Flatten.
func (in *Intake) Snapshot(
	ctx context.Context, name seedbed.InstanceName, snapshot string, freeze seedbed.Freeze, o seedbed.JobOptions,
) (seedbed.Receipt, error) {
	req := snapshotRequest(seedbed.DoSnapshot, name, snapshot, o)
	req.Params["freeze"] = string(freeze)
	return in.snapshotJob(ctx, req, nil)
}

// RemoveSnapshot accepts a request to remove a snapshot. The errors are those of Snapshot.
func (in *Intake) RemoveSnapshot(ctx context.Context, name seedbed.InstanceName, snapshot string,
	o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.snapshotJob(ctx, snapshotRequest(seedbed.DoSnapshotRemove, name, snapshot, o), nil)
}

func snapshotRequest(action string, name seedbed.InstanceName, snapshot string, o seedbed.JobOptions) seedbed.Request {
	return seedbed.Request{Action: action, Project: name.Project, Name: name.Name, Params: map[string]any{"snapshot": snapshot}, JobOptions: o}
}

// snapshotJob accepts a request to take, remove or restore a snapshot. A restore has the errors of a stop
// as well, ErrNotFound for a snapshot that no volume has, ErrConflict for one that only some have, for an
// instance that is protected, and for one that would start and has expired.
func (in *Intake) snapshotJob(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (r seedbed.Receipt, err error) {
	job, warnings, err := in.onSnapshot(ctx, req)
	if err != nil {
		return r, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery, Confirm: req.Confirm, Warnings: warnings})
}

// onSnapshot returns the job of a request, and what is to be said about it. It writes nothing.
func (in *Intake) onSnapshot(ctx context.Context, req seedbed.Request) (job seedbed.Job, warnings []string, err error) {
	kind := seedbed.SnapshotActions()[req.Action]
	power, name, freeze, err := snapshotParams(req)
	if err != nil {
		return job, nil, err
	}
	if err := cmp.Or(seedbed.CheckInstanceName(req.Name), seedbed.CheckName("snapshot", name)); err != nil {
		return job, nil, err
	}
	req.Params = nil
	inst, err := in.existing(ctx, req)
	if err != nil {
		return job, nil, err
	}
	job = jobOn(inst, kind, req.JobOptions)
	var spec any = seedbed.SnapshotJob{Name: name, Also: req.Also, Freeze: freeze, Schedule: req.Schedule}
	switch kind {
	case seedbed.JobSnapshot:
		err = in.snapshotable(ctx, inst, name)
	case seedbed.JobSnapshotRestore:
		power.Was = inst.State // the store sets it again, with the instance locked
		spec = seedbed.SnapshotRestore{PowerSpec: power, Name: name}
		warnings, err = in.restorable(ctx, inst, name)
	}
	if err != nil {
		return job, nil, err
	}
	if job.Spec, err = json.Marshal(spec); err != nil {
		return job, nil, fmt.Errorf("encode the %s of %s: %w", req.Action, inst.Name, err)
	}
	return job, warnings, nil
}

// snapshotParams parses the parameters of a request: the name of a snapshot, for a new one whether the guest is frozen, and for a restore
// how the instance is switched off.
func snapshotParams(req seedbed.Request) (power seedbed.PowerSpec, name string, freeze seedbed.Freeze, err error) {
	rest, takes := maps.Clone(req.Params), "snapshot"
	switch req.Action {
	case seedbed.DoSnapshotRestore:
		takes = "snapshot, force, soft and grace"
		if power, rest, err = powerSpec(req.Params); err != nil {
			return power, "", "", err
		}
	case seedbed.DoSnapshot:
		takes = "snapshot and freeze"
		if given, has := rest["freeze"]; has {
			text, _ := given.(string)
			if freeze = seedbed.Freeze(text); given != text {
				freeze = "?"
			}
			if err := freeze.Check(); err != nil {
				return power, "", "", err
			}
			delete(rest, "freeze")
		}
	}
	name, ok := rest["snapshot"].(string)
	if delete(rest, "snapshot"); !ok {
		return power, "", "", seedbed.Errorf(seedbed.ErrInvalid, "param snapshot is missing, or is not a string: expected the name of a snapshot")
	}
	if len(rest) > 0 {
		return power, "", "", seedbed.Errorf(seedbed.ErrInvalid, "param %q is unknown: action %s accepts %s",
			seedbed.Clip(slices.Sorted(maps.Keys(rest))[0]), req.Action, takes)
	}
	return power, name, freeze, nil
}

// reported returns the snapshot of that name as the node reports it, or its zero value if the volume has
// none. known is false if the node does not report it.
func (in *Intake) reported(ctx context.Context, inst seedbed.Instance, v seedbed.Volume,
	snapshot string) (s seedbed.SnapshotInfo, known bool) {
	if in.serving.Snapshots == nil {
		return s, false
	}
	asked, cancel := context.WithTimeout(ctx, strangerTime)
	defer cancel()
	all, err := in.serving.Snapshots(asked, inst.Node, v.Pool, v.Name, inst.ID)
	if at := slices.IndexFunc(all, func(s seedbed.SnapshotInfo) bool { return s.Name == snapshot }); at >= 0 {
		s = all[at]
	}
	return s, err == nil
}

// snapshotable refuses a snapshot of a name that a volume has already. What the node does not report leaves it to the job.
func (in *Intake) snapshotable(ctx context.Context, inst seedbed.Instance, snapshot string) error {
	for _, v := range inst.Volumes {
		if s, _ := in.reported(ctx, inst, v, snapshot); s.Name != "" {
			return seedbed.Errorf(seedbed.ErrExists, "instance %q has a snapshot %q already: take another name, or remove it "+
				"(seedbed vm snapshot remove %s %s)", inst.Name, snapshot, inst.Name, snapshot)
		}
	}
	return nil
}

// restorable refuses a restore that its job could not do, and returns what else the job does. What the
// node does not report leaves it to the job.
func (in *Intake) restorable(ctx context.Context, inst seedbed.Instance, snapshot string) (notes []string, err error) {
	if inst.State == seedbed.InstanceRunning {
		if err := notExpired(inst); err != nil {
			return nil, err
		}
	}
	var lacking []string
	for _, v := range inst.Volumes {
		s, known := in.reported(ctx, inst, v, snapshot)
		switch {
		case known && s.Name == "":
			lacking = append(lacking, v.Name)
		case s.Size > 0 && s.Size < v.Size:
			notes = append(notes, fmt.Sprintf("volume %s has grown from %s to %s since the snapshot: it keeps its size, "+
				"and what it has grown by is empty", v.Name, s.Size, v.Size))
		}
	}
	switch {
	case len(lacking) == len(inst.Volumes):
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "instance %q has no snapshot %q (seedbed vm snapshot list %s)", inst.Name, snapshot,
			inst.Name)
	case len(lacking) > 0:
		return nil, seedbed.Errorf(seedbed.ErrConflict, "snapshot %q of instance %q is not complete: volume %s does not have it. "+
			"Only a snapshot of all disks is restored: choose one that is complete (seedbed vm snapshot list %s)",
			snapshot, inst.Name, strings.Join(lacking, " and "), inst.Name)
	}
	return notes, nil
}

// planSnapshot returns what a job on a snapshot would do, and why it would not be accepted.
func (in *Intake) planSnapshot(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: req.Project, Name: req.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return p, note(&p, err)
	}
	inst, err := in.store.InstanceByName(ctx, p.FullName())
	if err != nil {
		return p, note(&p, err)
	}
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory, p.Volumes = inst.Profile, inst.Image, inst.Node, inst.VCPUs, inst.Memory, inst.Volumes
	if seedbed.IsTenant(ctx) {
		p.Node = ""
	}
	if inst.State != seedbed.InstanceRunning && inst.State != seedbed.InstanceStopped {
		p.Problems = append(p.Problems, fmt.Sprintf("instance %q is %s: it must be running or stopped", inst.Name, inst.State))
	}
	job, notes, err := in.onSnapshot(ctx, req)
	if err != nil {
		return p, note(&p, err)
	}
	p.Stages, p.Notes = in.stages(&job), notes
	if job.Kind != seedbed.JobSnapshotRestore {
		return p, nil
	}
	if inst.Protected && req.Confirm != inst.Name {
		p.Notes = append(p.Notes, "it is protected: its name is needed to confirm (--confirm "+inst.Name+")")
	}
	lost := "the disks lose what was written since the snapshot"
	if s, known := in.reported(ctx, inst, inst.Volumes[0], req.Params["snapshot"].(string)); known {
		lost += " of " + s.Created.Format(time.RFC3339)
	}
	p.Notes = append(p.Notes, lost+"; all snapshots stay")
	if inst.State == seedbed.InstanceRunning {
		p.Notes = append(p.Notes, "it is shut down for that, and started again")
	}
	return p, nil
}
