package store

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/sqldb"
)

// checkQualifiedImages expects that an image counts in the project of its qualified name.
func checkQualifiedImages(t *testing.T, db *DB) {
	t.Helper()
	ctx := t.Context()
	insert := func(name string) error {
		return db.sql.Update(ctx, "insert image", func(tx *sqldb.Tx) error {
			return catalogue.InsertImage(ctx, tx, seedbed.Image{Name: name, Pool: "default", Source: "/img"}, "n")
		})
	}
	quota := seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Images: 2}}
	for _, name := range []string{"acme", "acm"} { // one name begins with the other
		do(db.CreateProject(ctx, seedbed.Project{Name: name, Quota: quota}))(t)
	}
	do(db.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
		p.Quota = quota
		return nil
	}))(t)
	for _, project := range []string{"acme", seedbed.DefaultProject, "acm"} {
		for n, name := range []string{"debian", "ubuntu", "acme"} {
			if err := insert(seedbed.Qualified(project, name)); n < 2 && err != nil || n == 2 && !errors.Is(err, seedbed.ErrForbidden) {
				t.Errorf("image %d of %s: %v", n, project, err)
			}
		}
		if u := do(db.ProjectUse(ctx, project))(t); u.Images != 2 {
			t.Errorf("%s has %d images: want 2", project, u.Images)
		}
	}
	if err := insert("none/debian"); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("an image of a project that does not exist: %v", err)
	}
}

func TestQualifiedImagesCount(t *testing.T) {
	t.Parallel()
	checkQualifiedImages(t, fresh(t))
}

// BenchmarkProjectRates reads the rates of a project, as for each request.
func BenchmarkProjectRates(b *testing.B) {
	db, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "seedbed.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.ProjectRates(b.Context(), seedbed.DefaultProject); err != nil {
			b.Fatal(err)
		}
	}
}
