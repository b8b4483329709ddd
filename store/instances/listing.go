package instances

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/store/sqldb"
)

// The conditions on the state in the partial indexes of instances.
const (
	MakingState  = " AND state = 'provisioning'"
	SettledState = " AND state <> 'provisioning'"
)

// Where returns the condition for the instances of a query. It uses a range instead of
// LIKE, because both databases can use an index for that. The conditions on the state without an
// argument repeat those of the partial indexes, as for jobs.
func Where(q seedbed.InstanceQuery) *sqldb.Where {
	w := sqldb.InScope(q.Scope)
	switch q.State {
	case "":
	case seedbed.InstanceProvisioning:
		w.And("state = 'provisioning'")
	default:
		w.And("state = %s AND state <> 'provisioning'", q.State)
	}
	if q.Profile != "" {
		w.And("profile = %s", q.Profile)
	}
	if q.Node != "" {
		w.And("node = %s", q.Node)
	}
	if q.Prefix != "" {
		w.And("name >= %s AND name < %s", q.Prefix, q.Prefix+"\x7f") // names are ASCII
	}
	switch project, one := q.Scope.One(); {
	case q.After.Name == "":
	case one && q.After.Project == project: // SQLite uses its index only for a condition on the name
		w.And("name > %s", q.After.Name)
	default:
		w.And("(project, name) > (%s, %s)", q.After.Project, q.After.Name)
	}
	return w
}

// ListInstances returns the instances of a query sorted by project and name, with their NICs and volumes.
func (s *Store) ListInstances(ctx context.Context, q seedbed.InstanceQuery) (all []seedbed.Instance, err error) {
	err = s.db.View(ctx, "list instances", func(tx *sqldb.Tx) error {
		w, ofProfile := Where(q), q.Profile != "" && q.State == ""
		if q.Limit <= 0 && !ofProfile {
			all, err = Read(ctx, tx, w.String(), w.Args...)
			return err
		}
		page := fmt.Sprintf(" ORDER BY project, name LIMIT $%d", len(w.Args)+1)
		of := func(condition string) string {
			return `SELECT id FROM (SELECT id, project, name FROM instance WHERE ` + w.String() + condition + page + `) AS one`
		}
		from := of("")
		if ofProfile { // the index by profile leaves out instances that are being made
			from = `SELECT id FROM (SELECT id, project, name FROM instance WHERE id IN (` + of(SettledState) +
				` UNION ALL ` + of(MakingState) + `)` + page + `) AS both_kinds`
		}
		all, err = Read(ctx, tx, `id IN (`+from+`)`, append(w.Args, sqldb.UpTo(q.Limit))...)
		return err
	})
	return all, err
}
