package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"seedbed"
)

// The kinds of claim.
const (
	claimName  = "name"
	claimMAC   = "mac"
	claimIP    = "ip"
	claimImage = "image"
)

// take makes a claim for holder, an instance's ID or an image's name. When
// another has it the error names who.
func take(ctx context.Context, tx *sql.Tx, c seedbed.Claim, holder string) error {
	made, err := put(ctx, tx, intoClaim, c.Kind, c.Key, c.Job, holder)
	if err != nil || made {
		return err
	}
	var by seedbed.JobID
	var state seedbed.JobState
	var subject string
	err = tx.QueryRowContext(ctx, `SELECT job.id, job.state, job.subject FROM claim JOIN job ON job.id = claim.job WHERE claim.kind = $1 AND claim.key = $2`,
		c.Kind, c.Key).Scan(&by, &state, &subject)
	if errors.Is(err, sql.ErrNoRows) {
		return errAgain // it was released between the two statements
	}
	if err != nil {
		return err
	}
	return &seedbed.Error{Kind: seedbed.ErrExists, Msg: taken(c, by, state, subject), Holder: by}
}

// freeID refuses an ID that another instance than that of job has, with the job that made it as Holder.
// Where rows are gathered nothing is read: the instance's own key refuses it, and
// each write is then made by itself.
func freeID(ctx context.Context, tx *sql.Tx, id seedbed.InstanceID, job seedbed.JobID) error {
	if pileOf(ctx) != nil {
		return nil
	}
	by, err := one(ctx, tx, value[seedbed.JobID], nil, `SELECT job FROM claim WHERE holder = $1 AND kind = $2 AND job <> $3`, id, claimName, job)
	if err != nil || by == "" {
		return err
	}
	return &seedbed.Error{Kind: seedbed.ErrExists, Holder: by, Msg: fmt.Sprintf("UUID %s is another instance's already (job %s)", id, by.Short())}
}

func taken(c seedbed.Claim, by seedbed.JobID, state seedbed.JobState, subject string) string {
	live := !state.Terminal()
	switch c.Kind {
	case claimName:
		if live {
			return fmt.Sprintf("instance %q is being made by job %s", c.Key, by.Short())
		}
		return fmt.Sprintf("instance %q exists already (made by job %s)", c.Key, by.Short())
	case claimImage:
		if live {
			return fmt.Sprintf("image %q is being imported by job %s", c.Key, by.Short())
		}
		return fmt.Sprintf("image %q exists already (imported by job %s)", c.Key, by.Short())
	case claimMAC:
		return fmt.Sprintf("MAC address %s is instance %q's already (job %s)", c.Key, subject, by.Short())
	}
	return fmt.Sprintf("address %s is instance %q's already (job %s)", c.Key, subject, by.Short())
}
