package instances

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// Confirmed returns ErrConflict for a job that destroys the disks of a protected instance, unless
// the request confirms it with the instance's name. A webhook cannot confirm: it gets ErrForbidden.
// The job's Subject must be set.
func Confirmed(ctx context.Context, tx *sqldb.Tx, a seedbed.Acceptance) error {
	protected, err := sqldb.One(ctx, tx, sqldb.Value[bool], nil, `SELECT protected FROM instance WHERE id = $1`, a.Job.Instance)
	switch {
	case err != nil || !protected:
		return err
	case a.Delivery != nil:
		return seedbed.Errorf(seedbed.ErrForbidden, "instance %q is protected: no webhook may %s it (seedbed vm unprotect %s)",
			a.Job.Subject, a.Job.Kind.Verb(), a.Job.Subject)
	case a.Confirm == "":
		return seedbed.Errorf(seedbed.ErrConflict,
			"instance %q is protected: to %s it, confirm with its name (--confirm %s; in the API confirm=%s), "+
				"or take the protection away (seedbed vm unprotect %s)", a.Job.Subject, a.Job.Kind.Verb(), a.Job.Subject, a.Job.Subject, a.Job.Subject)
	case a.Confirm != a.Job.Subject:
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q is protected, and %q is not its name: nothing was done",
			a.Job.Subject, sqldb.Clean(a.Confirm, 80))
	}
	return nil
}
