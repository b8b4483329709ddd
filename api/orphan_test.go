package api_test

import (
	"context"
	"errors"
	"testing"

	"seedbed"
)

// TestOrphanRoutes checks that orphans and strays are listed, and that a request undoes their job
// again.
func TestOrphanRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	if r := s.expect(t, "GET", "/orphans", "", 200); r.body != "[]" {
		t.Errorf("nothing is left: %s", r.body)
	}
	i := s.stored(t)
	s.off(t)
	s.expect(t, "POST", "/instances/web1/snapshots", `{"name":"one"}`, 202)
	job := s.claim(t)
	short := job.ID.Short()
	s.expect(t, "POST", "/jobs/"+short+"/undo", "", 409, "only one that was undone")
	leave := func(job *seedbed.Job) {
		t.Helper()
		left := seedbed.Orphan{Kind: seedbed.OrphanSnapshot, Pool: "default", Name: "v@one", Why: "no answer"}
		err := errors.Join(
			s.db.Undone(t.Context(), job.Ref(), "snapshot", left.Why, left),
			s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobIncomplete}),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.db.Step(t.Context(), job.Ref(), seedbed.Step{Next: "snapshot", Total: 1}),
		s.db.Undo(t.Context(), job.Ref(), "no room")); err != nil {
		t.Fatal(err)
	}
	leave(job)
	stray := []seedbed.Orphan{{Kind: seedbed.OrphanDomain, Node: "host1", Name: "lost", Instance: seedbed.NewInstanceID()}}
	for range 2 {
		if err := s.db.NoteStrays(context.Background(), []string{"host1"}, stray); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(t, "GET", "/orphans", "", 200, `"of":"snapshot"`, `"instance":"`+string(i.ID)+`"`,
		`"stage":"snapshot","kind":"snapshot","pool":"default","name":"v@one","why":"no answer"`,
		`"kind":"domain","name":"lost"`)
	s.expect(t, "POST", "/jobs/"+short+"/undo", "", 202, `"state":"undoing"`)
	s.expect(t, "POST", "/jobs/"+short+"/undo", "", 409)
	leave(s.claim(t))
	s.expect(t, "GET", "/orphans", "", 200, `"tries":2`)
	s.expect(t, "DELETE", "/instances/web1", "", 202)
	s.expect(t, "POST", "/jobs/"+short+"/undo", "", 409, `"kind":"in_use"`)
	s.expect(t, "POST", "/jobs/00000000/undo", "", 404)
}

// TestPlanImportRoute checks that the plan of an import has its node and the problems that would
// prevent it.
func TestPlanImportRoute(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	s.expect(t, "POST", "/plan/import", `{"name":"fresh","path":"/srv/disk"}`, 200, `"pool":"default"`, `"stages":["import"]`, `"problems":[]`)
	s.expect(t, "POST", "/plan/import", `{"name":"debian","size":"1MiB"}`, 200, `image \"debian\" exists already`)
	s.expect(t, "POST", "/plan/import", `{"name":"fresh","size":"9TiB"}`, 200, `may be uploaded (storage.max_upload)`)
	s.expect(t, "POST", "/plan/import", `{"name":"vm","ova":true}`, 200, "did not find an 'ova' or 'default_ova' provisioning script")
	s.expect(t, "POST", "/plan/import", `{"name":"vm","ova":true,"path":"/srv/x"}`, 422, "an OVA is uploaded")
	s.expect(t, "POST", "/plan/import", `{"name":"fresh","more":1}`, 400)
}
