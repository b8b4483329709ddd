package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/backups"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/hooks"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// Accept writes everything that one request asks for in one transaction: the delivery, the instance
// or image with its claims, the queued job and its first event. If any part is refused, nothing is
// written.
//
// A delivery that was accepted before returns the receipt of its job with Duplicate set, or
// ErrConflict if its body differs. A claim that is held returns ErrExists; Holder of the
// *seedbed.Error is the job that made the claim. (If the claim is a MAC, the caller may generate
// another and try again.) A network without a free address returns ErrFull. An image that is not
// active, or a reference to anything that does not exist, returns ErrInvalid. Removing an instance
// that a job works on returns ErrInUse with that job as Holder, unless that job makes the instance:
// then it is cancelled, and the removal follows it. So is a stop or reboot that waits for the guest,
// by a forced stop.
func (db *DB) Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	if err := checkAcceptance(a); err != nil {
		return seedbed.Receipt{}, err
	}
	var receipt seedbed.Receipt
	var accepted seedbed.Job
	asker := seedbed.ChangeOf(ctx)
	fn := func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		a := a // fn may run more than once
		a.Job.Project = cmp.Or(a.Job.Project, seedbed.DefaultProject)
		if a.Instance != nil {
			i := *a.Instance
			i.Project = cmp.Or(i.Project, seedbed.DefaultProject)
			a.Instance = &i
		}
		receipt = seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobQueued}
		if err := instances.LockNetworks(ctx, b, instances.NetworksOf(holderOfNIC(a))); err != nil {
			return nil, err
		}
		if err := instances.LockSecurityGroups(ctx, b, instances.SecurityGroupsOf(holderOfNIC(a))); err != nil {
			return nil, err
		}
		asked := "accepted"
		if a.Delivery != nil {
			if !b.Shared { // in a shared transaction, the unique key refuses an ID that is used up
				old, err := hooks.ReadReceipt(ctx, b.Tx, *a.Delivery)
				if err != nil {
					return nil, err
				}
				if old != nil {
					receipt = *old
					return nil, sqldb.ErrUnchanged
				}
			}
			asked = fmt.Sprintf("accepted from hook %s, delivery %s", a.Delivery.Hook, a.Delivery.ID)
			if err := hooks.HoldQuota(ctx, b, a); err != nil {
				return nil, err
			}
		}
		if a.Delivery == nil && asker != nil {
			madeBy(&a, asker.Token)
		}
		if err := matched(ctx, b.Tx, asker, a.Job); err != nil {
			return nil, err
		}
		if err := db.accept(ctx, b, &a); err != nil {
			return nil, err
		}
		hooks.AddDelivery(b.Tx, a)
		jobs.FirstEvents(b.Tx, a.Job.ID, asked, a.Warnings)
		accepted = a.Job
		return []outbox.Event{acceptance(a)}, nil
	}
	var err error
	if what := "accept " + string(a.Job.Kind); a.Job.Kind == seedbed.JobCreate && a.Script == nil && a.Instance.PlacementGroup == "" {
		// The transaction is shared with other writes, so the error may be caused by one of them.
		err = db.writes.Together(ctx, what, groupcommit.Change{
			Networks: instances.NetworksOf(a.Instance), Groups: instances.SecurityGroupsOf(a.Instance),
			Hook: hooks.QuotaOf(a), Token: quotaToken(asker, a), Project: quotaProject(a),
			Do: func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
				told, err := fn(ctx, b)
				if known := (*seedbed.Error)(nil); b.Shared && a.Delivery != nil && errors.As(err, &known) {
					return nil, groupcommit.ErrApart // the delivery may be a duplicate; only a transaction of its own looks for that
				}
				if err == nil {
					access.Record(b.Tx, asker, what)
				}
				return told, err
			}})
	} else {
		err = db.sql.Update(ctx, what, func(tx *sqldb.Tx) error {
			told, err := fn(ctx, groupcommit.Alone(tx))
			if err != nil {
				return err
			}
			if err := outbox.Emit(ctx, tx, told...); err != nil || !accepted.Blocked {
				return err
			}
			receipt.Cancels, receipt.State, err = db.cancelFollowed(ctx, tx, accepted)
			return err
		})
	}
	if err != nil {
		if !errors.Is(err, seedbed.ErrExists) { // ErrExists means that no address was assigned
			db.AddressesFreed()
		}
		return seedbed.Receipt{}, err
	}
	return receipt, nil
}

func checkAcceptance(a seedbed.Acceptance) error {
	if a.Delivery != nil {
		if err := hooks.CheckDelivery(*a.Delivery); err != nil {
			return err
		}
	}
	if uuid.Validate(string(a.Job.ID)) != nil || len(a.Job.ID) != 36 {
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not a job ID: expected a lower-case UUID", sqldb.Clean(string(a.Job.ID), 80))
	}
	if err := a.Job.JobOptions.Check(a.Job.Kind); err != nil {
		return err
	}
	switch a.Job.Kind {
	case seedbed.JobCreate, seedbed.JobAdopt, seedbed.JobBackupRestore, seedbed.JobClone:
		return checkInstance(a.Instance)
	case seedbed.JobImport:
		if a.Image == nil {
			return seedbed.Errorf(seedbed.ErrInvalid, "an import needs an image")
		}
		return seedbed.CheckQualifiedName("image", a.Image.Name)
	case seedbed.JobRebuild:
		return checkRebuild(a)
	case seedbed.JobOVA:
		return catalogue.CheckNewOVA(a.OVA)
	case seedbed.JobOVARemove:
		return seedbed.CheckOVAName(a.Job.Subject)
	case seedbed.JobBackupVerify, seedbed.JobBackupRemove:
		return seedbed.CheckTargetName(a.Job.Subject)
	case seedbed.JobMigrate:
		return checkMigrate(a.Job)
	case seedbed.JobFailover:
		return checkFailover(a.Job)
	case seedbed.JobRemove, seedbed.JobStart, seedbed.JobStop, seedbed.JobReboot:
		_, err := seedbed.ParseInstanceID(string(a.Job.Instance))
		return err
	}
	if ok, err := checkProjectVolumeJob(a); ok {
		return err
	}
	if ok, err := checkNICJob(a); ok {
		return err
	}
	if ok, err := checkVolumeJob(a.Job); ok {
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "job kind %q is unknown", sqldb.Clean(string(a.Job.Kind), 80))
}

func checkInstance(i *seedbed.Instance) error {
	if i == nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "a create needs an instance")
	}
	if _, err := seedbed.ParseInstanceID(string(i.ID)); err != nil {
		return err
	}
	if err := seedbed.CheckInstanceName(i.Name); err != nil {
		return err
	}
	if len(i.NICs) > seedbed.MaxNICs || len(i.Volumes) > seedbed.MaxVolumes {
		return seedbed.Errorf(seedbed.ErrInvalid, "instance %q has %d NICs and %d volumes: expected at most %d and %d",
			i.Name, len(i.NICs), len(i.Volumes), seedbed.MaxNICs, seedbed.MaxVolumes)
	}
	if err := instances.CheckServed(*i); err != nil {
		return sqldb.Within(fmt.Sprintf("instance %q", i.Name), err)
	}
	for at, n := range i.NICs {
		if n.MAC == (seedbed.MAC{}) {
			return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: NIC %d has no MAC address", i.Name, n.Index)
		}
		for _, other := range i.NICs[:at] {
			if n.MAC == other.MAC {
				return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: NICs %d and %d have the same MAC address %s: expected another for one of them",
					i.Name, other.Index, n.Index, n.MAC)
			}
			if n.Addr.IsValid() && n.Addr == other.Addr && n.Network == other.Network {
				return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: NICs %d and %d have the same address %s: expected another for one of them",
					i.Name, other.Index, n.Index, n.Addr)
			}
		}
	}
	return nil
}

// accept writes the job and its subject.
func (db *DB) accept(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance) error {
	if err := acceptAfter(ctx, b.Tx, &a.Job); err != nil {
		return err
	}
	if a.Job.Kind.MakesInstance() {
		return db.acceptCreate(ctx, b, a)
	}
	err := error(nil)
	if a.Job.Kind.OfNIC() {
		err = db.acceptNIC(ctx, b, a)
	} else {
		err = acceptSubject(ctx, b, a)
	}
	if err != nil {
		return err
	}
	if err := acceptPool(ctx, b.Tx, a); err != nil {
		return err
	}
	if err := holdJobs(ctx, b, a.Job.Project); err != nil {
		return err
	}
	return jobs.InsertJob(ctx, b, a.Job, 1+len(a.Warnings))
}

// madeBy records the token that makes the instance or the volume.
func madeBy(a *seedbed.Acceptance, token string) {
	switch a.Job.Kind {
	case seedbed.JobCreate, seedbed.JobBackupRestore, seedbed.JobClone:
		a.Instance.Token = token
	case seedbed.JobVolumeAdd:
		v := *a.Volume
		v.Token = token
		a.Volume = &v
	}
}

// acceptCreate writes the job before the rows that refer to it. Otherwise SQLite, because of the
// deferred foreign keys, would search all those rows for each job that is inserted later.
func (db *DB) acceptCreate(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance) error {
	if err := instances.HoldGroup(ctx, b.Tx, a.Instance.PlacementGroup, a.Instance.ID, a.Instance.Node, ""); err != nil {
		return err
	}
	if err := checkCloned(ctx, b.Tx, *a); err != nil {
		return err
	}
	if err := holdQuotas(ctx, b, *a.Instance); err != nil {
		return err
	}
	if err := holdJobs(ctx, b, a.Instance.Project); err != nil {
		return err
	}
	a.Job.Project, a.Job.Subject, a.Job.Instance, a.Job.Node = a.Instance.Project, a.Instance.Name, a.Instance.ID, a.Instance.Node
	if len(a.Instance.Volumes) > 0 {
		a.Job.Pool = a.Instance.Volumes[0].Pool
	}
	if err := jobs.InsertJob(ctx, b, a.Job, 1+len(a.Warnings)); err != nil {
		return err
	}
	hook := ""
	if a.Delivery != nil {
		hook = a.Delivery.Hook
	}
	if err := db.Insert(ctx, b, a.Job.ID, *a.Instance, hook); err != nil {
		return err
	}
	if a.Job.Kind == seedbed.JobAdopt {
		if err := backups.Back(ctx, b.Tx, a.Instance.ID); err != nil {
			return err
		}
	}
	if a.Script != nil {
		if err := insertScriptRun(ctx, b.Tx, a.Job.ID, *a.Script); err != nil {
			return err
		}
	}
	if a.Compose == nil {
		return nil
	}
	return instances.Compose(ctx, b.Tx, a.Instance.ID, a.Compose)
}

// acceptSubject writes the subject of a job that is not a create, and completes the job's row.
func acceptSubject(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance) error {
	tx := b.Tx
	switch a.Job.Kind {
	case seedbed.JobImport:
		a.Job.Project, a.Job.Subject, a.Job.Instance = seedbed.ProjectOf(a.Image.Name), a.Image.Name, ""
		c := seedbed.Claim{Kind: catalogue.ImageClaim, Key: a.Image.Name, Job: a.Job.ID}
		if err := catalogue.Take(ctx, tx, c, a.Image.Name); err != nil {
			return err
		}
		if err := checkImageSource(ctx, tx, a.Job, *a.Image); err != nil {
			return err
		}
		return catalogue.InsertImage(ctx, tx, *a.Image, a.Job.Node)
	case seedbed.JobRemove:
		return acceptRemove(ctx, tx, a)
	case seedbed.JobStart, seedbed.JobStop, seedbed.JobReboot:
		return acceptSwitch(ctx, tx, &a.Job)
	case seedbed.JobMigrate:
		return acceptMigrate(ctx, tx, &a.Job)
	case seedbed.JobFailover:
		return acceptFailover(ctx, tx, &a.Job)
	case seedbed.JobRebuild:
		return acceptRebuild(ctx, tx, a)
	case seedbed.JobResize:
		return acceptResize(ctx, tx, &a.Job)
	case seedbed.JobSnapshotRestore:
		return acceptRestore(ctx, tx, a)
	case seedbed.JobSet:
		return acceptSet(ctx, tx, &a.Job)
	case seedbed.JobRename:
		return acceptRename(ctx, tx, &a.Job)
	case seedbed.JobSnapshot:
		return acceptSnapshot(ctx, tx, &a.Job)
	case seedbed.JobBackupVerify, seedbed.JobBackupRemove: // what they work on is not in the database
		a.Job.Instance = ""
		return nil
	case seedbed.JobOVA:
		return acceptOVA(ctx, tx, a)
	case seedbed.JobOVARemove:
		return acceptOVARemove(ctx, tx, &a.Job)
	case seedbed.JobVolumeAdd:
		return acceptVolumeAdd(ctx, b, a)
	case seedbed.JobVolumeRemove:
		return acceptVolumeRemove(ctx, tx, &a.Job)
	case seedbed.JobVolumeResize, seedbed.JobVolumeSet, seedbed.JobVolumeMove, seedbed.JobVolumeDownload:
		return acceptVolumeChange(ctx, b, &a.Job)
	case seedbed.JobAttach:
		return acceptAttach(ctx, tx, &a.Job)
	case seedbed.JobDetach:
		return acceptDetach(ctx, tx, &a.Job)
	}
	return acceptVolumeJob(ctx, tx, &a.Job)
}
