package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
)

func TestResize(t *testing.T) {
	t.Parallel()
	s := start(t)
	i := s.stored(t)
	const path = "/api/v1/instances/web1/resize"
	for _, c := range []struct {
		name, path, body string
		status           int
		says             string
	}{
		{"dry run", path, `{"size":"1TiB","dry_run":true}`, 200, `"size":"1TiB"`},
		{"dry run of what is refused", path, `{"size":"1MiB","dry_run":true}`, 200, "only become larger"},
		{"smaller", path, `{"size":"1MiB"}`, 422, "only become larger"},
		{"nothing", path, `{}`, 422, "already"},
		{"no disk", path, `{"disk":"7","size":"1TiB"}`, 404, "expected one of"},
		{"vcpus while it runs", path, `{"vcpus":2}`, 409, "stopped"},
		{"unknown field", path, `{"cpus":2}`, 400, "cpus"},
		{"negative", path, `{"vcpus":-1}`, 422, "vcpus"},
		{"no instance", "/api/v1/instances/none/resize", `{"size":"1TiB"}`, 404, "none"},
	} {
		if r := s.do(t, "POST", c.path, c.body); r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %d %s; want %d with %q", c.name, r.status, r.body, c.status, c.says)
		}
	}
	r := s.do(t, "POST", path+"?priority=high", `{"size":"1TiB"}`)
	var receipt seedbed.Receipt
	if err := json.Unmarshal([]byte(r.body), &receipt); err != nil || r.status != 202 {
		t.Fatalf("%+v, %v", r, err)
	}
	job, err := s.db.Job(t.Context(), receipt.Job)
	if err != nil {
		t.Fatal(err)
	}
	var spec seedbed.ResizeSpec
	if err := json.Unmarshal(job.Spec, &spec); err != nil || job.Kind != seedbed.JobResize || job.Priority != seedbed.PriorityHigh ||
		spec != (seedbed.ResizeSpec{Pool: i.Volumes[0].Pool, Volume: i.Volumes[0].Name, Size: seedbed.TiB}) {
		t.Errorf("job %+v of %s, %v", job, job.Spec, err)
	}
}

// TestRemoveWhileMade checks that removing an instance that is still being created names the job
// that it cancels.
func TestRemoveWhileMade(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stored(t)
	made := s.do(t, "POST", "/api/v1/instances", `{"name":"web2","profile":"small"}`)
	var create, removal seedbed.Receipt
	if err := json.Unmarshal([]byte(made.body), &create); err != nil || made.status != 202 {
		t.Fatalf("%+v, %v", made, err)
	}
	if job := s.claim(t); job.ID != create.Job {
		t.Fatalf("claimed %+v", job)
	}
	r := s.do(t, "DELETE", "/api/v1/instances/web2", "")
	if err := json.Unmarshal([]byte(r.body), &removal); err != nil || r.status != 202 || removal.Cancels != create.Job ||
		removal.State != seedbed.JobQueued {
		t.Fatalf("%+v, %v", r, err)
	}
	if r := s.do(t, "DELETE", "/api/v1/instances/web2", ""); r.status != 409 || !strings.Contains(r.body, string(removal.Job)) {
		t.Errorf("once more: %+v", r)
	}
}
