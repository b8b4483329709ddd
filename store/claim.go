package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"seedbed"
	"seedbed/store/sqldb"
)

// claimImage is the kind of claim that reserves an image's name. The unique values of an instance
// (ID, name, MACs and addresses) are claimed by the keys of its own rows.
const claimImage = "image"

// take makes a claim for holder, the name of an image. If the claim is held, it returns ErrExists
// and names the job that holds it.
func take(ctx context.Context, tx *sqldb.Tx, c seedbed.Claim, holder string) error {
	n, err := sqldb.Affect(ctx, tx, `INSERT INTO claim (kind, key, job, holder) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, c.Kind, c.Key, c.Job, holder)
	if err != nil || n == 1 {
		return err
	}
	var by seedbed.JobID
	var state seedbed.JobState
	err = tx.QueryRowContext(ctx, `SELECT job.id, job.state FROM claim JOIN job ON job.id = claim.job WHERE claim.kind = $1 AND claim.key = $2`,
		c.Kind, c.Key).Scan(&by, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return sqldb.ErrAgain // it was released between the two statements
	}
	if err != nil {
		return err
	}
	return &seedbed.Error{Kind: seedbed.ErrExists, Msg: taken(c, by, state), Holder: by}
}

// These queries find the row by which an instance claims a value.
const (
	holdsID   = `FROM instance WHERE id = $1`
	holdsName = `FROM instance WHERE name = $1`
	holdsMAC  = `FROM nic JOIN instance ON instance.id = nic.instance WHERE nic.mac = $1`
	holdsAddr = `FROM nic JOIN instance ON instance.id = nic.instance WHERE nic.network = $1 AND nic.addr = $2`
)

// unclaimed returns ErrExists if another instance has what job claims for its own. Holder is the
// job that made that instance; message builds the text. In a shared transaction unclaimed reads
// nothing: a unique key refuses the write, which is then repeated in a transaction of its own.
func unclaimed(ctx context.Context, b *Batch, job seedbed.JobID, holds string, message func(held) string, args ...any) error {
	if b.shared {
		return nil
	}
	by, err := sqldb.One(ctx, b.Tx, func(r sqldb.Row) (h held, err error) {
		err = r.Scan(&h.name, &h.job, &h.state)
		return h, err
	}, nil, `SELECT i.name, job.id, job.state FROM (SELECT instance.id, instance.name `+holds+`) AS i
		JOIN job ON job.instance = i.id AND job.kind IN ('`+string(seedbed.JobCreate)+`', '`+string(seedbed.JobAdopt)+`')
		WHERE job.id <> $`+strconv.Itoa(len(args)+1)+` ORDER BY job.created DESC LIMIT 1`, append(args, job)...)
	if err != nil || by.job == "" {
		return err
	}
	return &seedbed.Error{Kind: seedbed.ErrExists, Msg: message(by), Holder: by.job}
}

// held is the instance that has the claimed value, and the job that made it.
type held struct {
	name  string
	job   seedbed.JobID
	state seedbed.JobState
}

func nameTaken(h held) string {
	if !h.state.Terminal() {
		return fmt.Sprintf("instance %q is being made by job %s", h.name, h.job.Short())
	}
	return fmt.Sprintf("instance %q exists already (made by job %s)", h.name, h.job.Short())
}

func taken(c seedbed.Claim, by seedbed.JobID, state seedbed.JobState) string {
	if !state.Terminal() {
		return fmt.Sprintf("image %q is being imported by job %s", c.Key, by.Short())
	}
	return fmt.Sprintf("image %q exists already (imported by job %s)", c.Key, by.Short())
}
