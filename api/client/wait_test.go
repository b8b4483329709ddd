package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"seedbed"

	"github.com/google/go-cmp/cmp"
)

// history streams a job's events two at a time, and then breaks the stream. Its second answer is
// that seedbedd is not ready.
type history struct {
	events []seedbed.Event
	job    seedbed.Job
	asked  int
}

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked++
	if h.asked == 2 {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"kind":"unavailable","detail":"seedbedd is stopping"}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	last, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	sent := 0
	send := func(kind string, id int64, v any) {
		b, _ := json.Marshal(v)
		if id > 0 {
			fmt.Fprintf(w, "id: %d\r\n", id)
		}
		fmt.Fprintf(w, ":\n\nevent: %s\ndata:%s\n\n", kind, b)
	}
	send("job", 0, h.job)
	for _, e := range h.events {
		if e.Seq > last && sent < 2 {
			sent++
			send("event", e.Seq, e)
			send("event", e.Seq, e) // sent twice, but counts once
		}
	}
	if sent < 2 {
		h.job.State = seedbed.JobSucceeded
		send("end", 0, h.job)
	}
}

func TestWaitJob(t *testing.T) {
	t.Parallel()
	h := &history{job: seedbed.Job{ID: "j", State: seedbed.JobRunning}}
	for seq := range int64(5) {
		h.events = append(h.events, seedbed.Event{Seq: seq + 1})
	}
	c := serve(t, h.ServeHTTP)
	var got []int64
	job, err := c.WaitJob(t.Context(), "j", func(e seedbed.Event, j seedbed.Job) {
		if j.ID != "j" {
			t.Errorf("event %d came with job %q", e.Seq, j.ID)
		}
		if e.Seq > 0 {
			got = append(got, e.Seq)
		}
	})
	if err != nil || job.State != seedbed.JobSucceeded {
		t.Errorf("WaitJob: %s, %v", job.State, err)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWaitJobEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: job\ndata: {\"id\":\"j\",\"state\":\"running\"}\n\n")
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.WaitJob(ctx, "j", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitJob: %v, want Canceled", err)
	}
	missing := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		io.WriteString(w, `{"kind":"not_found","detail":"no such job"}`)
	})
	if _, err := missing.WaitJob(t.Context(), "j", nil); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("WaitJob: %v, want ErrNotFound", err)
	}
	ended := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/jobs/j/events" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		io.WriteString(w, `{"job":{"id":"j","state":"failed"},"stages":[]}`)
	})
	if job, err := ended.WaitJob(t.Context(), "j", nil); err != nil || job.State != seedbed.JobFailed {
		t.Errorf("WaitJob: %s, %v, want failed", job.State, err)
	}
	for name, answer := range map[string][2]string{
		"no stream":   {"application/json", "{}"},
		"other event": {"text/event-stream", "event: event\ndata: nonsense\n\n"},
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", answer[0])
			io.WriteString(w, answer[1])
		})
		began := time.Now()
		if _, err := c.WaitJob(t.Context(), "j", nil); err == nil || errors.Is(err, seedbed.ErrUnavailable) ||
			time.Since(began) > 20*time.Second {
			t.Errorf("%s: %v after %s, want an error that is not waited for", name, err, time.Since(began))
		}
	}
}

func TestFollowEvents(t *testing.T) {
	t.Parallel()
	asked := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "text/event-stream")
		last, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
		for n := last + 1; n <= last+3; n++ {
			fmt.Fprintf(w, "id: %d\nevent: event\ndata: {\"place\":%d,\"kind\":\"create\",\"subject\":\"web1\"}\n\n", n, n)
		}
	})
	var got []int64
	enough := errors.New("enough")
	err := c.FollowEvents(t.Context(), 4, func(e seedbed.NumberedEvent) error {
		if got = append(got, e.Place); len(got) == 6 {
			return enough
		}
		return nil
	})
	if diff := cmp.Diff([]int64{5, 6, 7, 8, 9, 10}, got); diff != "" || !errors.Is(err, enough) || asked != 2 {
		t.Errorf("%v, asked %d times\n%s", err, asked, diff)
	}
}
