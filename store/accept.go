package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"

	"seedbed"
)

// The bounds of an instance.
const (
	maxNICs    = 16
	maxVolumes = 32
)

// Accept writes everything that one request asks for, in one transaction: the
// delivery, the claims, the instance or image, the queued job and its first
// event. Nothing is written when any of it is refused.
//
// A delivery that was accepted before gives the receipt of its job with
// Duplicate set, and ErrConflict if its body was another. A claim that is held
// gives ErrExists with the job that made it in the *seedbed.Error's Holder (for
// a MAC, the caller may draw another and try again). A network without a free
// address gives ErrFull, an image that is not active or anything that does not
// exist ErrInvalid. Removing an instance that a job works on gives ErrInUse
// with that job as Holder.
func (db *DB) Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	receipt := seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobQueued}
	if err := checkAcceptance(a); err != nil {
		return seedbed.Receipt{}, err
	}
	err := db.update(ctx, "accept "+string(a.Job.Kind), func(tx *sql.Tx) error {
		asked := "accepted"
		if a.Delivery != nil {
			old, err := recordDelivery(ctx, tx, *a.Delivery, a.Job.ID)
			if err != nil {
				return err
			}
			if old != nil {
				receipt = *old
				return errUnchanged
			}
			asked = fmt.Sprintf("accepted from hook %s, delivery %s", a.Delivery.Hook, a.Delivery.ID)
		}
		if err := accept(ctx, tx, &a); err != nil {
			return err
		}
		if err := insertJob(ctx, tx, a.Job); err != nil {
			return err
		}
		return addEvent(ctx, tx, a.Job.ID, seedbed.Event{Level: "info", Msg: asked})
	})
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return receipt, nil
}

func checkAcceptance(a seedbed.Acceptance) error {
	if uuid.Validate(string(a.Job.ID)) != nil || len(a.Job.ID) != 36 {
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not a job ID: want a lower-case UUID", clean(string(a.Job.ID), 80))
	}
	switch a.Job.Kind {
	case seedbed.JobCreate:
		return checkInstance(a.Instance)
	case seedbed.JobImport:
		if a.Image == nil {
			return seedbed.Errorf(seedbed.ErrInvalid, "an import needs an image")
		}
		return seedbed.CheckName("image", a.Image.Name)
	case seedbed.JobRemove:
		_, err := seedbed.ParseInstanceID(string(a.Job.Instance))
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "job kind %q is unknown: want create, remove or import", clean(string(a.Job.Kind), 80))
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
	if len(i.NICs) > maxNICs || len(i.Volumes) > maxVolumes || len(i.UserData) > MaxUserData {
		return seedbed.Errorf(seedbed.ErrInvalid, "instance %q has %d NICs, %d volumes and %d bytes of user-data: want at most %d, %d and %d",
			i.Name, len(i.NICs), len(i.Volumes), len(i.UserData), maxNICs, maxVolumes, MaxUserData)
	}
	for _, n := range i.NICs {
		if n.MAC == (seedbed.MAC{}) {
			return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: NIC %d has no MAC address", i.Name, n.Index)
		}
	}
	return nil
}

// accept writes what the job works on, and completes the job's row.
func accept(ctx context.Context, tx *sql.Tx, a *seedbed.Acceptance) error {
	switch a.Job.Kind {
	case seedbed.JobCreate:
		a.Job.Subject, a.Job.Instance, a.Job.Node = a.Instance.Name, a.Instance.ID, a.Instance.Node
		return insertInstance(ctx, tx, a.Job.ID, *a.Instance)
	case seedbed.JobImport:
		a.Job.Subject, a.Job.Instance = a.Image.Name, ""
		c := seedbed.Claim{Kind: claimImage, Key: a.Image.Name, Job: a.Job.ID}
		if err := take(ctx, tx, c, a.Image.Name); err != nil {
			return err
		}
		return insertImage(ctx, tx, *a.Image)
	}
	return acceptRemove(ctx, tx, &a.Job)
}

func acceptRemove(ctx context.Context, tx *sql.Tx, j *seedbed.Job) error {
	missing := seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", j.Instance)
	err := setState(ctx, tx, j.Instance, seedbed.InstanceRemoving, missing)
	if err != nil {
		return err
	}
	other, err := one(ctx, tx, scanJob, nil, `SELECT `+jobColumns+` FROM job WHERE instance = $1 AND `+live+` ORDER BY created LIMIT 1`, j.Instance)
	if err != nil {
		return err
	}
	if other.ID != "" {
		return &seedbed.Error{Kind: seedbed.ErrInUse, Holder: other.ID,
			Msg: fmt.Sprintf("instance %q is in the hands of %s job %s: wait for its end, or cancel it", other.Subject, other.Kind, other.ID.Short())}
	}
	return tx.QueryRowContext(ctx, `SELECT name, node FROM instance WHERE id = $1`, j.Instance).Scan(&j.Subject, &j.Node)
}
