package webhook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// Who waits is told once the job has ended; with too many waiting already, or once the server
// stops, nobody is kept.
func TestWaitForTheResult(t *testing.T) {
	t.Parallel()
	const job = "11111111-2222-4333-8444-555555555555"
	jobs := &memory{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}, Jobs: jobs}, func(s *Server) { s.waits = make(chan struct{}, 1) })
	ask := func(wait string) answer {
		h := signed(vectorKey(t), "msg_1", time.Now(), create)
		h["Prefer"] = "wait=" + wait
		return deliver(t, s, "ci", h, create)
	}
	queued := func(when string, got answer) {
		t.Helper()
		if got.status != 202 || !strings.Contains(got.body, `"state":"queued"`) {
			t.Errorf("%s: %+v, want 202 and the job as it is", when, got)
		}
	}
	waiting := func() chan answer {
		done := make(chan answer, 1)
		go func() { done <- ask("60") }()
		for deadline := time.Now().Add(time.Minute); len(s.server.waits) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nobody waits")
			}
		}
		return done
	}
	first := waiting()
	began := time.Now()
	queued("another waits", ask("60"))
	jobs.end(job, seedbed.JobSucceeded)
	got := <-first
	var body accepted
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != 200 ||
		body.State != seedbed.JobSucceeded || got.header.Get("Preference-Applied") != "wait=60" {
		t.Errorf("%+v (%v)", got, err)
	}
	jobs.end(job, seedbed.JobRunning)
	queued("not in time", ask("1"))
	last := waiting()
	go s.stop()
	queued("the server stops", <-last)
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("it took %s", took)
	}
}

// What a provisioning script writes is not for senders, who may read less than a viewer.
func TestWaitForAScript(t *testing.T) {
	t.Parallel()
	const job = "11111111-2222-4333-8444-555555555555"
	jobs := &memory{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}, Jobs: jobs}, func(*Server) {})
	for failed, want := range map[string]string{
		"stage define: no such network":  "stage define: no such network",
		"stage install: Error in script": "stage install: " + seedbed.ScriptWithheld,
	} {
		jobs.mu.Lock()
		jobs.jobs = map[seedbed.JobID]seedbed.Job{job: {ID: job, State: seedbed.JobRolledBack, Error: failed}}
		jobs.mu.Unlock()
		h := signed(vectorKey(t), "msg_1", time.Now(), create)
		h["Prefer"] = "wait=60"
		got := deliver(t, s, "ci", h, create)
		var body accepted
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != 200 || body.Error != want {
			t.Errorf("%q: %+v (%v), want %q", failed, got, err, want)
		}
	}
}
