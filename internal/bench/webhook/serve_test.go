package main

import (
	"path/filepath"
	"testing"

	"seedbed"
	sql "seedbed/store"
)

// TestFurnish makes what the receiver has, for each side of projects_ratio.
func TestFurnish(t *testing.T) {
	for name, apart := range map[string]bool{"one project": false, "projects apart": true} {
		t.Run(name, func(t *testing.T) {
			s := store{path: filepath.Join(t.TempDir(), "seedbed.db"), apart: apart}
			db, err := sql.Open(t.Context(), s.config())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := furnish(t.Context(), db, newIntake(db), s); err != nil {
				t.Fatal(err)
			}
			last := s.hookOf(hooks - 1)
			project := seedbed.ProjectOf(last)
			if h, err := db.Hook(t.Context(), last); err != nil || h.Project != project || (project == seedbed.DefaultProject) == apart {
				t.Errorf("hook %s is of project %q, %v; want %q", last, h.Project, err, project)
			}
		})
	}
}
