package api_test

import (
	"testing"

	"seedbed"
)

// TestJobOptionsOfRoutes checks that the options of a request reach its job, whichever route made
// it.
func TestJobOptionsOfRoutes(t *testing.T) {
	t.Parallel()
	s := composable(t)
	// Each job is undone, so that the instance stays, except for those that only go forward.
	end := func(job *seedbed.Job, create bool) {
		t.Helper()
		out := seedbed.JobResult{State: seedbed.JobFailed, Error: "no"}
		switch {
		case create:
			out = seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}
		case !job.Kind.Forward():
			out.State = seedbed.JobRolledBack
			if err := s.db.Undo(t.Context(), job.Ref(), "no"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.db.Finish(t.Context(), job.Ref(), out); err != nil {
			t.Fatal(err)
		}
	}
	const vm = "/api/v1/instances/web1"
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/api/v1/provisioner/create?name=web1&profile=web&", ""},
		{"POST", "/api/v1/instances?", `{"name":"web2","profile":"web"}`},
		{"POST", "/api/v1/images?", `{"name":"other","path":"/img.qcow2"}`},
		{"POST", vm + "/start?", ""},
		{"POST", vm + "/stop?", ""},
		{"POST", vm + "/reboot?", ""},
		{"POST", vm + "/rebuild?", `{}`},
		{"POST", vm + "/flatten?", ""},
		{"POST", vm + "/resize?", `{"size":"1TiB"}`},
		{"POST", vm + "/snapshots?", `{"name":"before"}`},
		{"POST", vm + "/forget?", ""},
		{"POST", "/api/v1/vm/web1/state?state=start&", ""},
		{"DELETE", vm + "?", ""},
	} {
		if c.path == vm+"/snapshots?" {
			s.off(t)
		}
		if r := s.do(t, c.method, c.path+"priority=7", c.body); r.status/100 != 2 {
			t.Fatalf("%s %s: %+v", c.method, c.path, r)
		}
		job := s.claim(t)
		if job.Priority != 7 {
			t.Errorf("%s %s: %s job of priority %s, want 7", c.method, c.path, job.Kind, job.Priority)
		}
		end(job, job.Kind == seedbed.JobCreate)
	}
}
