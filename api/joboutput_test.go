package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestJobOutput checks which lines of a job's output are answered, and that the answer waits for
// more.
func TestJobOutput(t *testing.T) {
	t.Parallel()
	s := start(t)
	if r := s.do(t, "POST", "/api/v1/images", `{"name":"web1","path":"/x.qcow2"}`); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	job := s.claim(t)
	step := func(st seedbed.Step) {
		t.Helper()
		if err := s.db.Step(t.Context(), job.Ref(), st); err != nil {
			t.Fatal(err)
		}
	}
	put := func(stage string, texts ...string) {
		t.Helper()
		var lines []seedbed.OutputLine
		for _, text := range texts {
			lines = append(lines, seedbed.OutputLine{Stream: "stdout", Text: text})
		}
		if err := s.db.LogOutput(t.Context(), job.Ref(), stage, lines); err != nil {
			t.Error(err)
		}
	}
	step(seedbed.Step{Next: "setup", Total: 2})
	put("setup", "one", "two")
	step(seedbed.Step{Done: "setup", Next: "install"})
	put("install", "three")
	for _, test := range []struct {
		query  string
		status int
		want   string
	}{
		{"", 200, "1 setup one, 2 setup two, 3 install three"},
		{"?after=1", 200, "2 setup two, 3 install three"},
		{"?stage=setup", 200, "1 setup one, 2 setup two"},
		{"?stage=install&after=3", 200, ""},
		{"?after=-1", 422, "after"},
		{"?wait=x", 422, "wait"},
		{"?stage=..%2F", 422, "stage name"},
	} {
		r := s.do(t, "GET", "/api/v1/jobs/"+job.ID.Short()+"/output"+test.query, "")
		if r.status != test.status {
			t.Errorf("%s: %d %s", test.query, r.status, r.body)
			continue
		}
		if r.status != 200 {
			if !strings.Contains(r.body, test.want) {
				t.Errorf("%s: %s", test.query, r.body)
			}
			continue
		}
		var page struct {
			Lines []seedbed.JobOutput
			Job   seedbed.Job
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range page.Lines {
			got = append(got, fmt.Sprintf("%d %s %s", l.N, l.Stage, l.Text))
		}
		if d := cmp.Diff(test.want, strings.Join(got, ", ")); d != "" || page.Job.ID != job.ID {
			t.Errorf("%s (-want +got):\n%s", test.query, d)
		}
	}
	done := make(chan response, 1)
	go func() { done <- s.do(t, "GET", "/api/v1/jobs/"+string(job.ID)+"/output?after=3&wait=20s", "") }()
	time.AfterFunc(50*time.Millisecond, func() { put("install", "four") })
	if r := <-done; r.status != 200 || !strings.Contains(r.body, `"text":"four"`) {
		t.Errorf("held back: %+v", r)
	}
}

// TestJobOptions checks the options of requests' jobs, and which are refused.
func TestJobOptions(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.do(t, "POST", "/api/v1/images?on_failure=retry:5:30s&priority=high", `{"name":"web1","path":"/x.qcow2"}`)
	if first.status != 202 {
		t.Fatalf("%+v", first)
	}
	var receipt seedbed.Receipt
	if err := json.Unmarshal([]byte(first.body), &receipt); err != nil {
		t.Fatal(err)
	}
	after := s.do(t, "POST", "/api/v1/images?after="+receipt.Job.Short(), `{"name":"web2","path":"/x.qcow2"}`)
	if after.status != 202 {
		t.Fatalf("%+v", after)
	}
	show := s.do(t, "GET", "/api/v1/jobs/"+string(receipt.Job), "")
	for _, want := range []string{`"on_failure":"retry:5:30s"`, `"priority":"high"`, `"pool":"`} {
		if !strings.Contains(show.body, want) {
			t.Errorf("%s is not in %s", want, show.body)
		}
	}
	if list := s.do(t, "GET", "/api/v1/jobs", ""); !strings.Contains(list.body, `"after":"`+string(receipt.Job)+`","blocked":true`) {
		t.Errorf("%s", list.body)
	}
	for _, test := range []struct {
		query  string
		status int
		want   string
	}{
		{"on_failure=explode", 422, "rollback, keep, or retry"},
		{"on_failure=retry:1", 422, "rollback, keep, or retry"},
		{"priority=urgent", 422, "low, normal, high"},
		{"priority=101", 422, "-100 to 100"},
		{"after=xyz", 422, "first 8 characters"},
		{"after=00000000", 404, "does not exist"},
	} {
		if r := s.do(t, "POST", "/api/v1/images?"+test.query, `{"name":"web9","path":"/x.qcow2"}`); r.status != test.status ||
			!strings.Contains(r.body, test.want) {
			t.Errorf("%s: %d %s", test.query, r.status, r.body)
		}
	}
}
