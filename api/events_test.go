package api_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"seedbed"
)

type events struct {
	Events []seedbed.Event `json:"events"`
	Job    seedbed.Job     `json:"job"`
}

func (s *server) events(t *testing.T, id seedbed.JobID, after int64, wait string) events {
	t.Helper()
	r := s.do(t, "GET", fmt.Sprintf("/api/v1/jobs/%s/events?after=%d&wait=%s", id, after, wait), "")
	var e events
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.status != 200 {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return e
}

func (s *server) queue(t *testing.T) seedbed.JobID {
	t.Helper()
	r, err := s.intake.Import(t.Context(), "debian", "default", seedbed.ImportSpec{Path: "/x"}, seedbed.JobOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Job
}

func TestEventsComeAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.queue(t)
	began := time.Now()
	if e := s.events(t, id, 0, "30s"); len(e.Events) != 1 || e.Events[0].Seq != 1 || e.Job.State != seedbed.JobQueued {
		t.Errorf("%+v", e)
	}
	// Nothing newer, and no time to wait.
	if e := s.events(t, id, 1, "0s"); len(e.Events) != 0 || e.Events == nil {
		t.Errorf("%+v", e)
	}
	if d := time.Since(began); d > 25*time.Second {
		t.Errorf("took %s", d)
	}
}

func TestEventsWait(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.queue(t)
	began := time.Now()
	if e := s.events(t, id, 1, "300ms"); len(e.Events) != 0 || time.Since(began) < 300*time.Millisecond {
		t.Errorf("%+v after %s", e, time.Since(began))
	}
	answer := make(chan events, 1)
	go func() { answer <- s.events(t, id, 1, "30s") }()
	job := s.claim(t)
	err := s.db.LogEvent(t.Context(), job.Ref(), seedbed.Event{Level: "info", Msg: "copying", Progress: 40})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-answer:
		if len(e.Events) == 0 || e.Events[0].Seq != 2 {
			t.Errorf("%+v", e)
		}
	case <-time.After(25 * time.Second):
		t.Fatal("the new event did not end the wait")
	}
}

// TestEventsOfAnEndedJob checks that a job that has ended is not waited for, and that its last
// event comes first.
func TestEventsOfAnEndedJob(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	jobs, err := s.db.Jobs(t.Context(), 1)
	if err != nil || len(jobs) != 1 {
		t.Fatal(err)
	}
	all := s.events(t, jobs[0].ID, 0, "30s")
	if len(all.Events) < 2 || !all.Job.State.Terminal() {
		t.Fatalf("%+v", all)
	}
	began := time.Now()
	if e := s.events(t, jobs[0].ID, all.Events[len(all.Events)-1].Seq, "30s"); len(e.Events) != 0 || time.Since(began) > 25*time.Second {
		t.Errorf("%+v after %s", e, time.Since(began))
	}
}

// TestEventsEndWithTheServer checks that a waiting caller is answered at once when the server
// stops, and that the server does not wait for the caller's time to pass.
func TestEventsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.queue(t)
	answer := make(chan events, 1)
	go func() { answer <- s.events(t, id, 1, "30s") }()
	// The waiting request runs once it has had the time of a poll.
	if e := s.events(t, id, 1, "200ms"); len(e.Events) != 0 {
		t.Fatalf("%+v", e)
	}
	began := time.Now()
	s.stop()
	if d := time.Since(began); d > 25*time.Second {
		t.Errorf("stopping took %s", d)
	}
	if e := <-answer; len(e.Events) != 0 || e.Job.ID != id {
		t.Errorf("%+v", e)
	}
}
