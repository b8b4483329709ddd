package catalogue

import (
	"context"
	"strings"

	"seedbed"
	"seedbed/store/sqldb"
)

// toAll stands for all projects in a row of published. No project has this name.
const toAll = "*"

// existing is where the objects of each kind are that can be published.
var existing = map[seedbed.PublishedKind]string{
	seedbed.PublishedImage:   `image WHERE dropped = 0 AND name = $1`,
	seedbed.PublishedNetwork: `network WHERE name = $1`,
	seedbed.PublishedProfile: `profile WHERE name = $1`,

	seedbed.PublishedSystemTemplate:  `system_template WHERE name = $1`,
	seedbed.PublishedNetworkTemplate: `network_template WHERE name = $1`,
	seedbed.PublishedStorageTemplate: `storage_template WHERE name = $1`,
	seedbed.PublishedUserData:        `userdata WHERE name = $1`,
	seedbed.PublishedScript:          `script WHERE name = $1`,
	seedbed.PublishedOVA:             `ova WHERE name = $1`,
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

// usableIn returns the condition that an object of the kind is one that the project of a scope may use.
func usableIn(in seedbed.Scope, kind seedbed.PublishedKind) *sqldb.Where {
	w := &sqldb.Where{}
	project, one := in.One()
	if !one {
		return w
	}
	column := tableOf(kind) + ".name"
	own, args := owning(column, project)
	w.And(`(`+own+` OR EXISTS (SELECT 1 FROM published
		WHERE published.kind = %s AND published.name = `+column+` AND published.project IN ('`+toAll+`', %s)))`, append(args, kind, project)...)
	return w
}

// CountUsable counts the objects of a kind that the project of a scope may use or, in the scope of all projects,
// all of them.
func CountUsable(ctx context.Context, tx *sqldb.Tx, in seedbed.Scope, kind seedbed.PublishedKind) (n int, err error) {
	w := usableIn(in, kind)
	if kind == seedbed.PublishedImage {
		w.And("dropped = 0")
	}
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+tableOf(kind)+` WHERE `+w.String(), w.Args...).Scan(&n)
	return n, err
}

// owning returns the condition that a column has the name of an object of a project.
func owning(column, project string) (condition string, args []any) {
	if project == seedbed.DefaultProject {
		return column + ` NOT LIKE '%%/%%'`, nil
	}
	return column + ` >= %s AND ` + column + ` < %s`, []any{project + "/", project + "0"} // which is the byte after a slash
}

// tableOf returns the table of the objects of a kind.
func tableOf(kind seedbed.PublishedKind) string {
	table, _, _ := strings.Cut(existing[kind], " ")
	return table
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

// publish says to which other projects an object is published. lock locks it; read reads it, with its
// publication. The object as it was must pass the checks.
func publish[T any](
	ctx context.Context, s *Store, kind seedbed.PublishedKind, name string, to seedbed.Publication,
	read func(context.Context, *sqldb.Tx, string) (T, error), checks []func(T) error,
) (v T, err error) {
	err = s.locked(ctx, "publish", kind, name, func(tx *sqldb.Tx) error {
		if err := pass(ctx, tx, name, read, checks); err != nil {
			return err
		}
		if err := SetPublication(ctx, tx, kind, name, to); err != nil {
			return err
		}
		v, err = read(ctx, tx, name)
		return err
	})
	return v, err
}

// Withdraw makes an object a draft. It is also a part of its removal.
func Withdraw(ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind, qualified string) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM published WHERE kind = $1 AND name = $2`, kind, qualified)
}

// inUse returns ErrInUse if others use an object: those that by names, such as "by profile", with these qualified names. It names
// only those of which who asks may learn.
func inUse(ctx context.Context, kind seedbed.PublishedKind, name, by string, users []string) error {
	if len(users) == 0 {
		return nil
	}
	told := Told(ctx, users, seedbed.ProjectOf)
	if len(told) == 0 {
		return seedbed.Errorf(seedbed.ErrInUse, "the %s %q is used by other projects, to which it is, or was, published", kind.Noun(), name)
	}
	return seedbed.Errorf(seedbed.ErrInUse, "the %s %q is used %s %s: change or remove that first",
		kind.Noun(), name, by, sqldb.Quoted(told))
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
