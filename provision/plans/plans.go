package plans

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/record"
)

// Store is the part of the database that plans use. A call with an epoch that is over returns
// seedbed.ErrStale.
type Store interface {
	// Hint returns a channel that is closed at the next committed write of this process.
	Hint() <-chan struct{}
	// AppliedHint returns a channel that is closed when this process next learns what a node has
	// applied.
	AppliedHint() <-chan struct{}
	// Applied returns the revision that node has acknowledged; 0 and the zero time if it never has.
	// Revisions count per node.
	Applied(ctx context.Context, node string) (revision int64, at time.Time, err error)
	// Publish makes the guest plane of node serve g with its documents.
	Publish(ctx context.Context, ref seedbed.JobRef, node string, g seedbed.Guest, docs seedbed.Documents) (revision int64, err error)
	// Refresh renders the record of an instance again, from the instance as it is now, if node
	// serves it. Otherwise the revision is 0.
	Refresh(ctx context.Context, node string, id seedbed.InstanceID,
		render func(seedbed.Instance, seedbed.Guest) seedbed.Guest) (revision int64, err error)
	// Retract makes the guest plane of node forget the instance.
	Retract(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (revision int64, err error)

	// Arrive makes the guest plane of another node serve the instance as one that arrives there, and Move makes that node its own. Both return
	// the revision of the record there.
	Arrive(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (revision int64, err error)
	Move(ctx context.Context, ref seedbed.JobRef, node, home string, id seedbed.InstanceID,
		render func(seedbed.Instance, seedbed.Guest) seedbed.Guest) (revision int64, err error)

	// NodeFenced records that the node of a job is off, and FenceFailed why it could not be switched off.
	NodeFenced(ctx context.Context, ref seedbed.JobRef) error
	FenceFailed(ctx context.Context, ref seedbed.JobRef, problem string) error
	Node(ctx context.Context, name string) (seedbed.Node, error)
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error)
	InstanceByName(ctx context.Context, name seedbed.InstanceName) (seedbed.Instance, error)
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)

	Network(ctx context.Context, name string) (seedbed.Network, error)
	Image(ctx context.Context, name string) (seedbed.Image, error)

	// BackupTarget returns the target of backups of that name, with its secrets. Installation returns what tells this installation from
	// others.
	BackupTarget(ctx context.Context, name string) (seedbed.BackupTarget, error)
	Installation(ctx context.Context) (string, error)

	// VolumeOf returns the volume of a project with that ID, and SetAttachment records how far a job has attached or detached its volume.
	VolumeOf(ctx context.Context, id string) (seedbed.ProjectVolume, error)
	SetAttachment(ctx context.Context, ref seedbed.JobRef, to seedbed.VolumeState) error
	// SetVolumeSize records the size that a job has given its volume.
	SetVolumeSize(ctx context.Context, ref seedbed.JobRef, size seedbed.Bytes) error
	// SetVolumeLimits records how fast the volume of a job may be.
	SetVolumeLimits(ctx context.Context, ref seedbed.JobRef, l seedbed.IOLimits) error

	// SetVolumePlace records where the volume of a job is now.
	SetVolumePlace(ctx context.Context, ref seedbed.JobRef, to seedbed.VolumePlace) error

	// SetHardware records the hardware of the job's instance, and what of it its guest gets only at its next start.
	SetHardware(ctx context.Context, ref seedbed.JobRef, h seedbed.Hardware, pending []string) error

	// SetNIC records how far a job has got with its NIC, MoveNIC takes the NIC to a network, and DropNIC deletes it.
	SetNIC(ctx context.Context, ref seedbed.JobRef, to seedbed.NICState) error
	MoveNIC(ctx context.Context, ref seedbed.JobRef, network string) error
	DropNIC(ctx context.Context, ref seedbed.JobRef) error

	// Rebuilding returns what the job makes of its instance, and what the instance was before.
	Rebuilding(ctx context.Context, id seedbed.JobID) (seedbed.Rebuild, error)
	// Exchange replaces the instance by its new side while the job runs, or by its former side
	// while the job is undone. A second call with the former side changes nothing; a second call
	// with the new side only clears what the guest has fetched and reported.
	Exchange(ctx context.Context, ref seedbed.JobRef, to seedbed.RebuildSide) error

	// ScriptRun returns what the job needs to run its script; seedbed.ErrNotFound for a job without
	// a script.
	ScriptRun(ctx context.Context, id seedbed.JobID) (seedbed.ScriptRun, error)
	// AddVolume adds a volume to the job's instance; seedbed.ErrExists if another one has its name.
	AddVolume(ctx context.Context, ref seedbed.JobRef, v seedbed.Volume) error
	DropVolume(ctx context.Context, ref seedbed.JobRef, pool, name string) error
	// ScriptDomain returns the document that a script made for an instance's domain;
	// seedbed.ErrNotFound if no script made one.
	ScriptDomain(ctx context.Context, id seedbed.InstanceID) (xml string, err error)
	SetScriptDomain(ctx context.Context, ref seedbed.JobRef, xml string) error
}

// Planner makes the plans of all kinds of jobs.
type Planner struct {
	store    Store
	renderer record.Renderer
}

// New returns the plans of jobs on the instances and images of store. renderer makes the
// records that are published.
func New(store Store, renderer record.Renderer) *Planner {
	return &Planner{store: store, renderer: renderer}
}

// task is a task with what the stages of its plan share.
type task struct {
	*engine.Task
	store    Store
	renderer record.Renderer
	// place is the node that the job works on now, instead of its instance's; see at.
	place string
	// off is when the guest's time to shut down ends; zero before it was asked.
	off time.Time
	// script is the job's provisioning script; nil before it was read.
	script *scriptSide
	// made are the volumes that this task has made, by pool and name.
	made map[string]seedbed.Disk
}

// Node returns the name of the node that the job works on.
func (t *task) Node() string { return cmp.Or(t.place, t.Task.Node()) }

// Worker returns the worker of that node.
func (t *task) Worker() effects.Worker { return t.WorkerOf(t.Node()) }

// kinds maps the kinds of job to functions that return their plans.
var kinds = map[seedbed.JobKind]func(*task) engine.Plan{
	seedbed.JobCreate:         (*task).createPlan,
	seedbed.JobRemove:         (*task).removePlan,
	seedbed.JobImport:         (*task).importPlan,
	seedbed.JobStart:          (*task).startPlan,
	seedbed.JobStop:           (*task).stopPlan,
	seedbed.JobReboot:         (*task).rebootPlan,
	seedbed.JobRebuild:        (*task).rebuildPlan,
	seedbed.JobMigrate:        (*task).migratePlan,
	seedbed.JobFailover:       (*task).failoverPlan,
	seedbed.JobResize:         (*task).resizePlan,
	seedbed.JobFlatten:        (*task).flattenPlan,
	seedbed.JobSnapshot:       (*task).snapshotPlan,
	seedbed.JobSnapshotRemove: (*task).snapshotRemovePlan,
	seedbed.JobImageRemove:    (*task).imageRemovePlan,
	seedbed.JobOVA:            (*task).ovaPlan,
	seedbed.JobOVARemove:      (*task).ovaRemovePlan,
	seedbed.JobAdopt:          (*task).adoptPlan,
	seedbed.JobForget:         (*task).forgetPlan,
	seedbed.JobVolumeAdd:      (*task).volumeAddPlan,
	seedbed.JobVolumeRemove:   (*task).volumeRemovePlan,
	seedbed.JobVolumeResize:   (*task).volumeResizePlan,
	seedbed.JobVolumeSet:      (*task).volumeSetPlan,
	seedbed.JobVolumeMove:     (*task).volumeMovePlan,
	seedbed.JobVolumeDownload: (*task).volumeDownloadPlan,
	seedbed.JobAttach:         (*task).attachPlan,
	seedbed.JobDetach:         (*task).detachPlan,
	seedbed.JobNICAdd:         (*task).nicAddPlan,
	seedbed.JobNICRemove:      (*task).nicRemovePlan,
	seedbed.JobNICSet:         (*task).nicSetPlan,
	seedbed.JobSet:            (*task).setPlan,
	seedbed.JobRename:         (*task).renamePlan,

	seedbed.JobSnapshotRestore: (*task).restorePlan,

	seedbed.JobClone:         (*task).clonePlan,
	seedbed.JobBackup:        (*task).backupPlan,
	seedbed.JobBackupRestore: (*task).backupRestorePlan,
	seedbed.JobBackupVerify:  (*task).backupVerifyPlan,
	seedbed.JobBackupRemove:  (*task).backupRemovePlan,
}

// Kinds returns the kinds of job that have a plan.
func (p *Planner) Kinds() []seedbed.JobKind {
	return slices.DeleteFunc(seedbed.JobKinds(), func(k seedbed.JobKind) bool { return kinds[k] == nil })
}

// Plan returns the plan of a task's job; the zero value for an unknown kind.
func (p *Planner) Plan(t *engine.Task) engine.Plan {
	plan := kinds[t.Job.Kind]
	if plan == nil {
		return engine.Plan{}
	}
	return plan(&task{Task: t, store: p.store, renderer: p.renderer})
}

// Of returns the plan of a job, for reading only: none of its functions may be called.
func Of(job *seedbed.Job) engine.Plan { return (&Planner{}).Plan(&engine.Task{Job: job}) }

// StageNames returns the names of a job's stages in order; nil for an unknown kind.
func StageNames(job *seedbed.Job) (names []string) {
	for _, s := range Of(job).Stages {
		names = append(names, s.Name)
	}
	return names
}

// input decodes the job's input into what to points to.
func (t *task) input(to any) error {
	if err := json.Unmarshal(t.Job.Spec, to); err != nil {
		return fmt.Errorf("read the job's input: %w", err)
	}
	return nil
}
