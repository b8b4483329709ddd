package catalogue

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// toAll stands for all projects in a row of published. No project has this name.
const toAll = "*"

// existing is where the objects of each kind are that can be published.
var existing = map[seedbed.PublishedKind]string{
	seedbed.PublishedImage:   `image WHERE dropped = 0 AND name = $1`,
	seedbed.PublishedNetwork: `network WHERE name = $1`,
}

// Resolve returns the qualified name of the object that a request of a project names: see [seedbed.Meant].
// What does not exist, and what is neither the project's own nor published to it, is ErrNotFound. Everything
// that uses or shows an object of another project asks here.
func (s *Store) Resolve(ctx context.Context, kind seedbed.PublishedKind, project, name string) (string, error) {
	return sqldb.CachedIn(s.db, "name of "+string(kind)+" in "+project, name, func() (qualified string, err error) {
		err = s.db.View(ctx, "look up the "+string(kind), func(tx *sqldb.Tx) error {
			qualified, err = Resolve(ctx, tx, kind, project, name)
			return err
		})
		return qualified, err
	})
}

// Resolve is [Store.Resolve] in a transaction.
func Resolve(ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind, project, name string) (string, error) {
	meant, err := seedbed.Meant(kind, project, name)
	if err != nil {
		return "", err
	}
	for _, qualified := range meant {
		found, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT 1 FROM `+existing[kind], qualified)
		if err != nil {
			return "", err
		}
		if found == 0 {
			continue
		}
		to, err := ReadPublication(ctx, tx, kind, qualified)
		if err != nil {
			return "", err
		}
		if to.Lets(project, qualified) {
			return qualified, nil
		}
	}
	return "", kind.Missing(seedbed.ErrNotFound, name)
}

// ReadPublication returns to which projects an object is published.
func ReadPublication(ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind, qualified string) (seedbed.Publication, error) {
	projects, err := sqldb.List(ctx, tx, sqldb.Value[string],
		`SELECT project FROM published WHERE kind = $1 AND name = $2 ORDER BY project`, kind, qualified)
	to := seedbed.Publication{Projects: []string{}}
	for _, project := range projects {
		add(&to, project)
	}
	return to, err
}

// ReadPublications returns to which projects the objects of a kind are published, by qualified name. Drafts
// are left out.
func ReadPublications(ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind) (map[string]seedbed.Publication, error) {
	type row struct{ name, project string }
	rows, err := sqldb.List(ctx, tx, func(r sqldb.Row) (one row, err error) {
		err = r.Scan(&one.name, &one.project)
		return one, err
	}, `SELECT name, project FROM published WHERE kind = $1 ORDER BY name, project`, kind)
	all := map[string]seedbed.Publication{}
	for _, one := range rows {
		to, known := all[one.name]
		if !known {
			to.Projects = []string{}
		}
		add(&to, one.project)
		all[one.name] = to
	}
	return all, err
}

func add(to *seedbed.Publication, project string) {
	if project == toAll {
		to.All = true
	} else {
		to.Projects = append(to.Projects, project)
	}
}

// Shown returns the publication of an object in the form in which the object has it.
func Shown(to seedbed.Publication) *seedbed.Publication {
	to.Projects = sqldb.OrEmpty(to.Projects)
	return &to
}

// SetPublication says to which other projects an object is published, by its qualified name, instead of
// those before. It returns ErrInvalid for a publication that the object cannot have.
func SetPublication(ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind, qualified string, to seedbed.Publication) error {
	if err := to.Check(seedbed.ProjectOf(qualified)); err != nil {
		return err
	}
	if err := Withdraw(ctx, tx, kind, qualified); err != nil {
		return err
	}
	projects := to.Projects
	if to.All {
		projects = []string{toAll}
	}
	for _, project := range projects {
		err := sqldb.Exec(ctx, tx, `INSERT INTO published (kind, name, project) VALUES ($1, $2, $3)`, kind, qualified, project)
		if err != nil {
			return err
		}
	}
	return nil
}

// Withdraw makes an object a draft. It is also a part of its removal.
func Withdraw(ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind, qualified string) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM published WHERE kind = $1 AND name = $2`, kind, qualified)
}

// Told returns those of some objects that who asks for the change may learn of; project returns that of
// one.
func Told[T any](ctx context.Context, all []T, project func(T) string) []T {
	asker := seedbed.ChangeOf(ctx)
	var told []T
	for _, v := range all {
		if asker.Learns(project(v)) {
			told = append(told, v)
		}
	}
	return told
}
