package instances

import (
	"context"
	"fmt"
	"strconv"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// These queries find the row by which an instance claims a value.
const (
	holdsID   = `FROM instance WHERE id = $1`
	holdsName = `FROM instance WHERE project = $1 AND name = $2`
	holdsMAC  = `FROM nic JOIN instance ON instance.id = nic.instance WHERE nic.mac = $1`
	holdsAddr = `FROM nic JOIN instance ON instance.id = nic.instance WHERE nic.network = $1 AND nic.addr = $2`
)

// unclaimed returns ErrExists if another instance has what job claims for an instance of a project.
// Holder is the job that made that instance; message builds the text. Of an instance of another
// project, the error only says that what, such as "MAC address …", is taken. In a shared transaction
// unclaimed reads nothing: a unique key refuses the write, which is then repeated in a transaction of
// its own.
func unclaimed(
	ctx context.Context, b *groupcommit.Batch, job seedbed.JobID, project, holds, what string, message func(held) string, args ...any,
) error {
	if b.Shared {
		return nil
	}
	by, err := sqldb.One(ctx, b.Tx, func(r sqldb.Row) (h held, err error) {
		err = r.Scan(&h.project, &h.name, &h.job, &h.state)
		return h, err
	}, nil, `SELECT i.project, i.name, job.id, job.state FROM (SELECT instance.id, instance.project, instance.name `+holds+`) AS i
		JOIN job ON job.instance = i.id AND job.kind IN ('`+string(seedbed.JobCreate)+`', '`+string(seedbed.JobAdopt)+`', '`+
		string(seedbed.JobBackupRestore)+`', '`+string(seedbed.JobClone)+`')
		WHERE job.id <> $`+strconv.Itoa(len(args)+1)+` ORDER BY job.created DESC LIMIT 1`, append(args, job)...)
	switch {
	case err != nil || by.job == "":
		return err
	case by.project != project:
		return seedbed.Errorf(seedbed.ErrExists, "%s is taken", what)
	}
	return &seedbed.Error{Kind: seedbed.ErrExists, Msg: message(by), Holder: by.job}
}

// held is the instance that has the claimed value, and the job that made it.
type held struct {
	project, name string
	job           seedbed.JobID
	state         seedbed.JobState
}

func nameTaken(h held) string {
	if !h.state.Terminal() {
		return fmt.Sprintf("instance %q is being made by job %s", h.name, h.job.Short())
	}
	return fmt.Sprintf("instance %q exists already (made by job %s)", h.name, h.job.Short())
}

// belongs returns the message that what belongs to another instance of the project.
func belongs(what string) func(held) string {
	return func(h held) string {
		return fmt.Sprintf("%s already belongs to instance %q (job %s)", what, h.name, h.job.Short())
	}
}

// NameFree returns ErrExists if a project has an instance of that name.
func NameFree(ctx context.Context, tx *sqldb.Tx, project, name string) error {
	n, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT COUNT(*) `+holdsName, project, name)
	if err == nil && n > 0 {
		err = seedbed.Errorf(seedbed.ErrExists, "instance %q exists already: expected another name", name)
	}
	return err
}
