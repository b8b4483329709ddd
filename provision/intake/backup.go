package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/placement"
)

// Backups reaches the targets of backups through workers.
type Backups interface {
	// TargetNode returns the node through which a target is reached: its own, or any that answers.
	TargetNode(t seedbed.BackupTarget) (string, error)
	// BackupManifest returns the manifest of a backup in a target.
	BackupManifest(ctx context.Context, t seedbed.BackupTarget, key seedbed.BackupKey) (seedbed.BackupManifest, error)
}

// backUp accepts a request to copy the volumes of an instance to a target. Errors: ErrInvalid for a wrong parameter, ErrNotFound for a
// target or an instance that does not exist, ErrConflict for an instance that is not on the only node that reaches the target, and
// otherwise those of Flatten.
func (in *Intake) backUp(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	job, err := in.onBackup(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery})
}

// onBackup returns the job of a request to make a backup. It writes nothing.
func (in *Intake) onBackup(ctx context.Context, req seedbed.Request) (job seedbed.Job, err error) {
	spec, err := backupParams(req.Params)
	if err != nil {
		return job, err
	}
	target, err := in.store.BackupTarget(ctx, spec.Target)
	if err != nil {
		return job, err
	}
	req.Params = nil
	inst, err := in.existing(ctx, req)
	if err != nil {
		return job, err
	}
	if target.Node != "" && target.Node != inst.Node {
		err := seedbed.Errorf(seedbed.ErrConflict, "backup target %q is only reached by node %s, and instance %q is on node %s", target.Name,
			target.Node, inst.Name, inst.Node)
		if seedbed.IsTenant(ctx) {
			err = seedbed.Errorf(seedbed.ErrConflict, "backup target %q is not reached where instance %q is: choose another one", target.Name,
				inst.Name)
		}
		return job, err
	}
	job = jobOn(inst, seedbed.JobBackup, req.JobOptions)
	spec.Backup, spec.Schedule = seedbed.BackupIDOf(job.ID, time.Now()), req.Schedule
	if err := in.snapshotable(ctx, inst, seedbed.BackupSnapshot(spec.Target, spec.Backup)); err != nil {
		return job, err
	}
	if err := excludable(inst, spec.Exclude); err != nil {
		return job, err
	}
	if job.Spec, err = json.Marshal(spec); err != nil {
		return job, fmt.Errorf("encode the backup of %s: %w", inst.Name, err)
	}
	return job, nil
}

// excludable refuses to leave out a volume that is not attached.
func excludable(inst seedbed.Instance, exclude []string) error {
	for _, name := range exclude {
		if !slices.ContainsFunc(inst.Attached, func(v seedbed.ProjectVolume) bool { return v.Name == name }) {
			return seedbed.Errorf(seedbed.ErrInvalid, "exclude %q: no volume of that name is attached to instance %q", seedbed.Clip(name), inst.Name)
		}
	}
	return nil
}

// planBackup returns what a backup would do, and why it would not be accepted.
func (in *Intake) planBackup(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: req.Project, Name: req.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobBackup})
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
	for _, v := range inst.Attached {
		p.Notes = append(p.Notes, "volume "+v.Name+", which is attached, is in the backup, unless it is left out (--exclude "+v.Name+")")
	}
	_, err = in.onBackup(ctx, req)
	return p, note(&p, err)
}

// RestoreBackup accepts a request to make an instance of a project of a backup. Errors: ErrNotFound for a target or a backup that does not
// exist, ErrInvalid for a network or pool that does not exist here, and otherwise those of a create.
func (in *Intake) RestoreBackup(
	ctx context.Context, project string, of seedbed.BackupRestore, req seedbed.BackupRestoreRequest, o seedbed.JobOptions,
) (receipt seedbed.Receipt, err error) {
	if o, err = in.resolve(ctx, project, o); err != nil {
		return receipt, err
	}
	r, err := in.restored(ctx, project, of, req)
	if err != nil {
		return receipt, err
	}
	spec, err := json.Marshal(of)
	if err != nil {
		return receipt, fmt.Errorf("encode the restore of %s: %w", req.Name, err)
	}
	return in.acceptRestored(ctx, r, seedbed.JobBackupRestore, spec, o, nil)
}

// acceptRestored accepts a job that makes an instance of disks that exist. It chooses the node.
func (in *Intake) acceptRestored(
	ctx context.Context, r restored, kind seedbed.JobKind, spec []byte, o seedbed.JobOptions, delivery *seedbed.Delivery,
) (receipt seedbed.Receipt, err error) {
	reservation, err := in.placer.Choose(ctx, r.demand)
	if err != nil {
		return receipt, unplaced(ctx, err)
	}
	defer func() { reservation.Settle(err == nil && !receipt.Duplicate) }()
	warnings, err := in.room(ctx, reservation.Node, r.demand.Sizes, true)
	if err != nil {
		return receipt, err
	}
	r.inst.Node = reservation.Node
	for draw := 1; ; draw++ {
		job := jobOn(r.inst, kind, o)
		job.Spec = spec
		receipt, err = in.acceptNew(ctx, seedbed.Acceptance{Job: job, Delivery: delivery, Instance: &r.inst,
			Warnings: append(r.notes, warnings...)})
		if !errors.Is(err, seedbed.ErrExists) || draw == macDraws || len(r.drawn) == 0 {
			return receipt, err
		}
		if _, nameErr := in.store.InstanceByName(ctx, r.inst.FullName()); !errors.Is(nameErr, seedbed.ErrNotFound) {
			return receipt, err // the name is taken, not the address
		}
		for _, i := range r.drawn {
			r.inst.NICs[i].MAC = in.macs.another()
		}
	}
}

// PlanRestoreBackup returns what RestoreBackup would make, and why it would not be accepted. It writes nothing.
func (in *Intake) PlanRestoreBackup(
	ctx context.Context, project string, of seedbed.BackupRestore, req seedbed.BackupRestoreRequest,
) (seedbed.Plan, error) {
	return in.planRestored(ctx, project, req.Name, req.Node, &seedbed.Job{Kind: seedbed.JobBackupRestore}, func() (restored, error) {
		return in.restored(ctx, project, of, req)
	})
}

// planRestored returns the plan of a job that makes an instance of disks that exist.
func (in *Intake) planRestored(
	ctx context.Context, project, name, node string, job *seedbed.Job, make func() (restored, error),
) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: project, Name: name, Node: node, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{},
		Problems: []string{}, Stages: in.stages(job)}
	if err := note(&p, seedbed.CheckInstanceName(name)); err != nil || len(p.Problems) > 0 {
		return p, err
	}
	if err := in.planName(ctx, &p); err != nil {
		return p, err
	}
	r, err := make()
	if err != nil {
		return p, note(&p, err)
	}
	inst := r.inst
	p.Profile, p.VCPUs, p.Memory, p.Volumes, p.Ready = inst.Profile, inst.VCPUs, inst.Memory, slices.Clone(inst.Volumes), inst.Ready
	for i := range p.Volumes {
		p.Volumes[i].Name = "" // it contains an ID that is not drawn yet
	}
	p.Notes = append(r.notes, drawnVolumes)
	if len(r.drawn) > 0 {
		p.Notes = append(p.Notes, drawnMACs)
	}
	node, all, err := in.placer.Explain(ctx, r.demand)
	p.Node, p.Placement = node, all
	if err := note(&p, unplaced(ctx, err)); err != nil {
		return p, err
	}
	err = errors.Join(in.planNICs(ctx, &p, inst.NICs, func(nic int) bool { return slices.Contains(r.drawn, nic) }),
		in.planRoom(ctx, &p, r.demand.Sizes))
	if seedbed.IsTenant(ctx) {
		p.Node, p.Placement = "", nil
	}
	return p, err
}

// restored is the instance that is to be made of a backup.
type restored struct {
	inst   seedbed.Instance
	drawn  []int // the NICs whose random MACs may be replaced
	demand placement.Demand
	notes  []string
}

func (in *Intake) restored(
	ctx context.Context, project string, of seedbed.BackupRestore, req seedbed.BackupRestoreRequest,
) (r restored, err error) {
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return r, err
	}
	if seedbed.IsTenant(ctx) && req.Node != "" {
		return r, seedbed.Errorf(seedbed.ErrForbidden, "a node is chosen from the default project only: expected none")
	}
	target, err := in.store.BackupTarget(ctx, of.Target)
	if err != nil {
		return r, err
	}
	if target.Node != "" && req.Node != "" && target.Node != req.Node {
		return r, seedbed.Errorf(seedbed.ErrInvalid, "backup target %q is only reached by node %s: expected that node, or none", target.Name,
			target.Node)
	}
	m, err := in.serving.Backups.BackupManifest(ctx, target, of.Backup)
	if err != nil {
		return r, seedbed.BackupUnread(ctx, target.Name, err)
	}
	var c seedbed.BackupConfig
	if err := json.Unmarshal(m.Config, &c); err != nil || len(c.Volumes) != len(m.Disks) || len(m.Disks) == 0 {
		return r, seedbed.Errorf(seedbed.ErrInvalid, "backup %s has no configuration that this release knows: a newer one may have made it",
			of.Backup.Backup)
	}
	r.inst = seedbed.Instance{
		ID: c.Datasource.NewInstanceID(), Project: project, Name: req.Name, State: seedbed.InstanceProvisioning, VCPUs: c.VCPUs, Memory: c.Memory,
		Ready: seedbed.ReadyStarted, Held: req.Off, Follow: seedbed.FollowPinned, System: c.System, UserData: c.UserData,
		VendorData: c.VendorData, SSHKeys: c.SSHKeys, Datasource: c.Datasource, Metadata: c.Metadata.WithDefaults(seedbed.MetadataOptions{}),
		Tags: c.Tags, Notes: c.Notes,
	}
	// Where an instance may be is not the same in another installation, or later.
	r.inst.System.NodeLimit, r.inst.System.NodeSelector, r.inst.System.VNCBind = nil, "", ""
	if err := cmp.Or(seedbed.CheckVCPUs(c.VCPUs), seedbed.CheckMemory(c.Memory), seedbed.CheckTags(c.Tags)); err != nil {
		return r, fmt.Errorf("backup %s: %w", of.Backup.Backup, err)
	}
	if r.inst.NICs, r.drawn, err = in.restoredNICs(ctx, project, c, req, &r.notes); err != nil {
		return r, err
	}
	for i, d := range m.Disks {
		pool := cmp.Or(req.Pools[c.Volumes[i].Pool], c.Volumes[i].Pool)
		if err := in.poolKnown(ctx, pool); errors.Is(err, seedbed.ErrNotFound) {
			return r, seedbed.Errorf(seedbed.ErrInvalid,
				"pool %q for disk %d of the backup does not exist here: say which one is to have it (--pool %s=POOL)",
				seedbed.Clip(pool), i, seedbed.Clip(c.Volumes[i].Pool))
		} else if err != nil {
			return r, err
		}
		r.inst.Volumes = append(r.inst.Volumes,
			seedbed.Volume{Pool: pool, Name: fmt.Sprintf("%s-%d", r.inst.ID, i), Index: i, Size: d.Size})
	}
	r.demand, err = in.demands(ctx, r.inst, nil, r.inst.Volumes, cmp.Or(req.Node, target.Node))
	return r, err
}

// restoredNICs returns the NICs of an instance that is made of a backup, and notes what they do not have of those of the backup.
func (in *Intake) restoredNICs(
	ctx context.Context, project string, c seedbed.BackupConfig, req seedbed.BackupRestoreRequest, notes *[]string,
) ([]seedbed.NIC, []int, error) {
	var asked []seedbed.NICRequest
	for _, old := range c.NICs {
		n := seedbed.NICRequest{BandwidthIn: old.BandwidthIn, BandwidthOut: old.BandwidthOut}
		if req.KeepMACs {
			n.MAC = old.MAC
		}
		name := cmp.Or(req.Networks[old.Network], old.Network)
		var err error
		if n.Network, err = in.networkKnown(ctx, project, name); err != nil {
			if errors.Is(err, seedbed.ErrInvalid) {
				err = seedbed.Errorf(seedbed.ErrInvalid, "NIC %d: %s; say which one takes its place (--network %s=NETWORK)",
					old.Index, err, seedbed.Clip(old.Network))
			}
			return nil, nil, err
		}
		for _, g := range old.Groups {
			name := seedbed.ShortName(g)
			_, err := in.store.SecurityGroup(ctx, seedbed.Qualified(project, name))
			switch {
			case err == nil || name == seedbed.OpenGroup:
				n.Groups = append(n.Groups, name)
			case errors.Is(err, seedbed.ErrNotFound):
				*notes = append(*notes, fmt.Sprintf("NIC %d is not in security group %s, which does not exist here", old.Index, name))
			default:
				return nil, nil, err
			}
		}
		asked = append(asked, n)
	}
	return in.describedNICs(ctx, tailored{}, project, asked)
}

// VerifyBackups accepts a request to read backups as a whole.
func (in *Intake) VerifyBackups(
	ctx context.Context, project string, work seedbed.BackupWork, o seedbed.JobOptions,
) (seedbed.Receipt, error) {
	return in.onTarget(ctx, seedbed.JobBackupVerify, project, work, o)
}

// RemoveBackups accepts a request to remove backups, and what no other backup in the target needs.
func (in *Intake) RemoveBackups(
	ctx context.Context, project string, work seedbed.BackupWork, o seedbed.JobOptions,
) (seedbed.Receipt, error) {
	return in.onTarget(ctx, seedbed.JobBackupRemove, project, work, o)
}

func (in *Intake) onTarget(
	ctx context.Context, kind seedbed.JobKind, project string, work seedbed.BackupWork, o seedbed.JobOptions,
) (r seedbed.Receipt, err error) {
	if o, err = in.resolve(ctx, project, o); err != nil {
		return r, err
	}
	job, err := in.jobOnTarget(ctx, kind, project, work)
	if err != nil {
		return r, err
	}
	job.JobOptions = o
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job})
}

// jobOnTarget returns the job of a request to verify or remove backups. It writes nothing.
func (in *Intake) jobOnTarget(
	ctx context.Context, kind seedbed.JobKind, project string, work seedbed.BackupWork,
) (job seedbed.Job, err error) {
	target, err := in.store.BackupTarget(ctx, work.Target)
	if err != nil {
		return job, err
	}
	if kind == seedbed.JobBackupVerify && target.Recipient != "" && target.Identity == "" {
		return job, seedbed.Errorf(seedbed.ErrInvalid, "backup target %q is encrypted, and its identity is needed to verify what is there "+
			"(seedbed backup target set %s --identity-file FILE)", target.Name, target.Name)
	}
	job = seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, State: seedbed.JobQueued, Project: project, Subject: target.Name}
	if job.Node, err = in.serving.Backups.TargetNode(target); err != nil {
		return job, err
	}
	if job.Spec, err = json.Marshal(work); err != nil {
		return job, fmt.Errorf("encode the work on %s: %w", target.Name, err)
	}
	return job, nil
}

// PlanBackupWork returns what VerifyBackups or RemoveBackups, by the kind of job, would do, and why it would not be accepted.
func (in *Intake) PlanBackupWork(
	ctx context.Context, kind seedbed.JobKind, project string, work seedbed.BackupWork,
) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: project, Name: work.Target, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{},
		Stages: in.stages(&seedbed.Job{Kind: kind})}
	job, err := in.jobOnTarget(ctx, kind, project, work)
	if !seedbed.IsTenant(ctx) {
		p.Node = job.Node
	}
	for _, b := range work.Backups {
		p.Notes = append(p.Notes, fmt.Sprintf("backup %s of instance %s", b.Backup, b.Instance))
	}
	if kind == seedbed.JobBackupRemove {
		p.Notes = append(p.Notes, "what no other backup in the target needs is removed as well, once it is a day old")
	}
	return p, note(&p, err)
}
