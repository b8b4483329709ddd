package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

const projectColumns = `name, number, description, quota, revision, created, changed`

func scanProject(r sqldb.Row) (p seedbed.Project, err error) {
	err = r.Scan(&p.Name, &p.Number, &p.Description, sqldb.ToJSON(&p.Quota), &p.Revision, sqldb.ToTime(&p.Created), sqldb.ToTime(&p.Changed))
	return p, err
}

// AddProject adds a project, and returns it with its number. It returns ErrExists if there is one
// of that name, and ErrConflict if there was one: its jobs and its entries in the audit log stay.
func AddProject(ctx context.Context, tx *sqldb.Tx, p seedbed.Project) (seedbed.Project, error) {
	if err := p.Check(); err != nil {
		return p, err
	}
	former, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT name FROM project_removed WHERE name = $1`, p.Name)
	if err != nil {
		return p, err
	}
	if former != "" {
		return p, seedbed.Errorf(seedbed.ErrConflict,
			"a project %q was removed, and its jobs and audit entries have its name: choose another name", p.Name)
	}
	number, err := freeNumber(ctx, tx)
	if err != nil {
		return p, err
	}
	n, err := sqldb.Affect(ctx, tx, `INSERT INTO project (`+projectColumns+`) VALUES ($1, $2, $3, $4, 1, $5, $5) ON CONFLICT DO NOTHING`,
		p.Name, number, sqldb.Clean(p.Description, 1000), sqldb.AsJSON(p.Quota), sqldb.Micros(sqldb.Now()))
	if err == nil && n == 0 {
		err = seedbed.Errorf(seedbed.ErrExists, "project %q exists already", p.Name)
	}
	if err != nil {
		return p, err
	}
	return readProject(ctx, tx, p.Name)
}

// freeNumber returns an account number that no project has or had.
func freeNumber(ctx context.Context, tx *sqldb.Tx) (string, error) {
	for {
		number := seedbed.NewProjectNumber()
		taken, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `
			SELECT number FROM project WHERE number = $1 UNION ALL SELECT number FROM project_removed WHERE number = $1`, number)
		if err != nil || taken == "" {
			return number, err
		}
	}
}

func readProject(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Project, error) {
	return sqldb.One(ctx, tx, scanProject, seedbed.NoProject(name), `SELECT `+projectColumns+` FROM project WHERE name = $1`, name)
}

// Project returns the project called name.
func (s *Store) Project(ctx context.Context, name string) (p seedbed.Project, err error) {
	err = s.db.View(ctx, "read project", func(tx *sqldb.Tx) error {
		p, err = readProject(ctx, tx, name)
		return err
	})
	return p, err
}

// ratesTime bounds the read of a project's rates.
const ratesTime = 5 * time.Second

// ProjectRates returns the rates of the project called name. The caller asks for each request, so it
// allocates nothing while they are cached.
func (s *Store) ProjectRates(ctx context.Context, name string) (seedbed.RateQuota, error) {
	if r, ok := sqldb.Known[seedbed.RateQuota](s.db, "rates", name); ok {
		return r, nil
	}
	return s.readRates(ctx, name)
}

func (s *Store) readRates(ctx context.Context, name string) (seedbed.RateQuota, error) {
	ctx, cancel := context.WithTimeout(ctx, ratesTime)
	defer cancel()
	return sqldb.Cached(s.db, "rates", name, func() (seedbed.RateQuota, error) {
		p, err := s.Project(ctx, name)
		return p.Quota.RateQuota, err
	})
}

// Projects returns all projects sorted by name.
func (s *Store) Projects(ctx context.Context) (all []seedbed.Project, err error) {
	err = s.db.View(ctx, "list projects", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanProject, `SELECT `+projectColumns+` FROM project ORDER BY name`)
		return err
	})
	return all, err
}

// LockProject returns a project, and locks its row for the rest of the transaction. It returns
// ErrNotFound if there is none of that name.
func LockProject(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Project, error) {
	return sqldb.LockOne(ctx, tx, scanProject, seedbed.NoProject(name),
		`UPDATE project SET revision = revision WHERE name = $1 RETURNING `+projectColumns, name)
}

// ChangeProject applies change to a project's description and quota. Its name and number cannot change.
func (s *Store) ChangeProject(ctx context.Context, name string, change func(*seedbed.Project) error) (p seedbed.Project, err error) {
	err = s.db.Update(ctx, "change project "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if p, err = LockProject(ctx, tx, name); err != nil {
			return err
		}
		was := p
		if err := change(&p); err != nil {
			return err
		}
		if p.Name, p.Number = was.Name, was.Number; p.Description == was.Description && p.Quota.Equal(was.Quota) {
			return sqldb.ErrUnchanged
		}
		if err := p.Check(); err != nil {
			return err
		}
		p.Revision, p.Changed = was.Revision+1, sqldb.Now()
		return sqldb.Exec(ctx, tx, `UPDATE project SET description = $1, quota = $2, revision = $3, changed = $4 WHERE name = $5`,
			sqldb.Clean(p.Description, 1000), sqldb.AsJSON(p.Quota), p.Revision, sqldb.Micros(p.Changed), name)
	})
	return p, err
}

// RemoveProject removes a project that has nothing, and what tokens of others may do in it. It returns ErrInUse, naming what
// it has, ErrConflict for the default project, or the error of a check that the project does not pass.
func RemoveProject(ctx context.Context, tx *sqldb.Tx, name string, checks []func(seedbed.Project) error) error {
	p, err := LockProject(ctx, tx, name)
	if err != nil {
		return err
	}
	if err := sqldb.Pass(p, checks); err != nil {
		return err
	}
	if name == seedbed.DefaultProject {
		return seedbed.Errorf(seedbed.ErrConflict, "the project %s is the operators' own, and cannot be removed", name)
	}
	if err := projectIsEmpty(ctx, tx, name); err != nil {
		return err
	}
	if err := dropGrants(ctx, tx, name); err != nil {
		return err
	}
	if err := sqldb.Exec(ctx, tx, `INSERT INTO project_removed (name, number) VALUES ($1, $2)`, p.Name, p.Number); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `DELETE FROM project WHERE name = $1`, name)
}

// projectIsEmpty returns ErrInUse, naming what a project has, unless it has nothing.
func projectIsEmpty(ctx context.Context, tx *sqldb.Tx, name string) error {
	const most = 5
	var has []string
	qualified := name + "/%" // names of projects have neither % nor _
	for _, of := range []struct{ what, where, arg string }{
		{"instance", "instance WHERE project = $1", name},
		{"volume", "project_volume WHERE project = $1", name},
		{"image", "image WHERE dropped = 0 AND name LIKE $1", qualified},
		{"OVA image", "ova WHERE name LIKE $1", qualified},
		{"profile", "profile WHERE name LIKE $1", qualified},
		{"system template", "system_template WHERE name LIKE $1", qualified},
		{"network template", "network_template WHERE name LIKE $1", qualified},
		{"storage template", "storage_template WHERE name LIKE $1", qualified},
		{"userdata document", "userdata WHERE name LIKE $1", qualified},
		{"script", "script WHERE name LIKE $1", qualified},
		{"network", "network WHERE name LIKE $1", qualified},
		{"schedule", "schedule WHERE project = $1", name},
		{"floating address", "(SELECT addr AS name, project FROM floating_address) AS lent WHERE project = $1", name},
		{"token", "token WHERE project = $1", name},
		{"hook", "hook WHERE project = $1", name},
		{"endpoint", "endpoint WHERE project = $1", name},
	} {
		names, err := sqldb.List(ctx, tx, sqldb.Value[string],
			fmt.Sprintf(`SELECT name FROM %s ORDER BY name LIMIT %d`, of.where, most+1), of.arg)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			continue
		}
		if len(names) > most {
			names = append(names[:most], "…")
		}
		has = append(has, of.what+" "+strings.Join(names, ", "))
	}
	live, err := sqldb.Value[int](tx.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM job WHERE project = $1 AND state IN ('queued', 'running', 'undoing')`, name))
	if err != nil {
		return err
	}
	if live > 0 {
		has = append(has, fmt.Sprintf("jobs that have not ended: %d", live))
	}
	if has == nil {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInUse, "project %q has %s; remove these first", name, strings.Join(has, "; "))
}

// HoldProject returns the project of that name, or ErrInvalid if there is none. It locks its row, so that
// it is not removed before the transaction ends.
func HoldProject(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Project, error) {
	p, err := LockProject(ctx, tx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		err = Unknown(name)
	}
	return p, err
}

// Unknown returns the error for a request that names a project which does not exist, ErrInvalid.
func Unknown(name string) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "project %q does not exist", sqldb.Clean(name, 80))
}

// ReadProjects returns those of the named projects that exist, sorted by name.
func ReadProjects(ctx context.Context, tx *sqldb.Tx, names []string) ([]seedbed.Project, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	args := make([]any, len(names))
	for n, name := range names {
		args[n] = name
	}
	return sqldb.List(ctx, tx, scanProject, `SELECT `+projectColumns+` FROM project WHERE name IN (`+sqldb.RowsOfOne(1, len(names))+`)
		ORDER BY name`, args...)
}
