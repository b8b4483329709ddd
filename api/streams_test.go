package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// sent is one event of a stream.
type sent struct{ id, kind, data string }

// stream is an open event stream.
type stream struct {
	conn net.Conn
	in   *bufio.Reader
	resp *http.Response
}

// open opens a stream. small makes the system's receive buffer small.
func (s *server) open(t *testing.T, path, last string, small bool, header ...string) *stream {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if small {
		conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	req := "GET /api/v1" + path + " HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
	if len(header) == 0 {
		header = []string{"Authorization: Bearer " + token}
	}
	if last != "" {
		header = append(header, "Last-Event-ID: "+last)
	}
	fmt.Fprint(conn, req+strings.Join(header, "\r\n")+"\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &stream{conn, bufio.NewReader(resp.Body), resp}
}

// next returns the next event. It skips heartbeats, and counts them. At the end it returns io.EOF.
func (s *stream) next(beats *int) (e sent, err error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && e.data != "":
			return e, nil
		case line == ":" && beats != nil:
			*beats++
		case name == "id":
			e.id = value
		case name == "event":
			e.kind = value
		case name == "data":
			e.data = value
		}
	}
}

func (s *stream) must(t *testing.T) sent {
	t.Helper()
	e, err := s.next(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestStreamOfAJob(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.queue(t)
	w := s.open(t, "/jobs/"+string(id)[:13]+"/events", "", false)
	if kind := w.resp.Header.Get("Content-Type"); w.resp.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("%d %s", w.resp.StatusCode, kind)
	}
	if e := w.must(t); e.kind != "job" || e.id != "" || !strings.Contains(e.data, `"state":"queued"`) {
		t.Errorf("%+v", e)
	}
	if e := w.must(t); e.kind != "event" || e.id != "1" || !strings.Contains(e.data, `"msg":"accepted"`) {
		t.Errorf("%+v", e)
	}
	w.must(t) // the job, after the batch
	job := s.claim(t)
	for n := range 3 {
		if err := s.db.LogEvent(t.Context(), job.Ref(), seedbed.Event{Msg: fmt.Sprintf("line %d\nof two", n), Progress: 10 * n}); err != nil {
			t.Fatal(err)
		}
	}
	last := ""
	for last != "3" {
		e := w.must(t)
		if e.kind == "event" {
			last = e.id
		}
	}
	w.conn.Close()
	// The reader reconnects in the middle, and sees neither a gap nor a repetition.
	if err := s.db.Undo(t.Context(), job.Ref(), "full"); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "full", Drop: true}); err != nil {
		t.Fatal(err)
	}
	w = s.open(t, "/jobs/"+string(id)+"/events", last, false)
	want := 4
	for {
		e := w.must(t)
		if e.kind == "event" {
			if e.id != fmt.Sprint(want) {
				t.Errorf("event %s, want %d", e.id, want)
			}
			want++
			last = e.id
		}
		if e.kind == "end" {
			if !strings.Contains(e.data, `"state":"rolled_back"`) {
				t.Errorf("%s", e.data)
			}
			break
		}
	}
	if want < 5 {
		t.Errorf("only events up to %d", want-1)
	}
	if e, err := w.next(nil); err != io.EOF {
		t.Errorf("after the end: %+v, %v", e, err)
	}
	if w = s.open(t, "/jobs/"+string(id)+"/events", last, false); w.resp.StatusCode != 204 {
		t.Errorf("whoever has all gets %d, want 204", w.resp.StatusCode)
	}
}

func TestStreamOfAll(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "old")
	w := s.open(t, "/events", "", false)
	first := s.queue(t)
	e := w.must(t)
	var placed seedbed.NumberedEvent
	if err := json.Unmarshal([]byte(e.data), &placed); err != nil || placed.Job != first || placed.Kind != seedbed.JobImport ||
		placed.Subject != "debian" || e.id != fmt.Sprint(placed.Place) {
		t.Fatalf("%+v, %v: want the first event from now on", e, err)
	}
	w.conn.Close()
	job := s.claim(t)
	for n := range 600 { // more than a page
		if err := s.db.LogEvent(t.Context(), job.Ref(), seedbed.Event{Msg: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	w = s.open(t, "/events", e.id, false)
	for n, place := 0, placed.Place; n < 600; {
		var e seedbed.NumberedEvent
		if err := json.Unmarshal([]byte(w.must(t).data), &e); err != nil || e.Place != place+1 {
			t.Fatalf("event at %d, want %d: %v", e.Place, place+1, err)
		}
		if place = e.Place; e.Msg == fmt.Sprint(n) {
			n++
		}
	}
	// A stream from the beginning has the events before the first reader.
	w = s.open(t, "/events?after=0", "", false)
	if err := json.Unmarshal([]byte(w.must(t).data), &placed); err != nil || placed.Subject != "old" {
		t.Errorf("%+v, %v", placed, err)
	}
}

// TestStreamOfASlowReader checks that a reader that does not read is disconnected, and continues
// the stream where it broke.
func TestStreamOfASlowReader(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.config()
	c.Patience = 300 * time.Millisecond
	s.restart(t, c)
	id := s.queue(t)
	job := s.claim(t)
	const n = 4000
	long := strings.Repeat("x", 1900)
	w := s.open(t, "/jobs/"+string(id)+"/events", "", true)
	for range n {
		if err := s.db.LogEvent(t.Context(), job.Ref(), seedbed.Event{Msg: long}); err != nil {
			t.Fatal(err)
		}
	}
	s.room(t, 32) // the slow reader is dropped
	last := 0
	for {
		e, err := w.next(nil)
		if err != nil {
			break
		}
		if e.kind == "event" {
			if last++; e.id != fmt.Sprint(last) {
				t.Fatalf("event %s, want %d", e.id, last)
			}
		}
	}
	if last == 0 || last >= n {
		t.Fatalf("it got %d events of %d before it was dropped", last, n)
	}
	w = s.open(t, "/jobs/"+string(id)+"/events", fmt.Sprint(last), false)
	for want := last + 1; want <= n; {
		e, err := w.next(nil)
		if err != nil { // on a busy computer this reader may be slow, too
			w.conn.Close()
			w = s.open(t, "/jobs/"+string(id)+"/events", fmt.Sprint(want-1), false)
			continue
		}
		if e.kind == "event" {
			if e.id != fmt.Sprint(want) {
				t.Fatalf("event %s, want %d", e.id, want)
			}
			want++
		}
	}
}

// room waits until the caller may have another n streams, and closes them again.
func (s *server) room(t *testing.T, n int, header ...string) {
	t.Helper()
	var all []*stream
	await(t, fmt.Sprintf("there is room for %d streams", n), func() bool {
		w := s.open(t, "/events", "", false, header...)
		if w.resp.StatusCode != http.StatusOK {
			w.conn.Close()
			return false
		}
		all = append(all, w)
		return len(all) == n
	})
	for _, w := range all {
		w.conn.Close()
	}
}

// await polls until so returns true.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not in two minutes: %s", what)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.config()
	c.Heartbeat = 50 * time.Millisecond
	s.restart(t, c)
	viewer := s.newToken(t, "watcher", seedbed.RoleViewer)
	var all []*stream
	for range 32 {
		all = append(all, s.open(t, "/events", "", false, "X-Api-Key: "+viewer))
	}
	r := s.open(t, "/events", "", false, "X-Api-Key: "+viewer).resp
	if body, _ := io.ReadAll(r.Body); r.StatusCode != 429 || r.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(body), "token watcher may have 32") {
		t.Errorf("one more: %d %s", r.StatusCode, body)
	}
	if r := s.open(t, "/events", "", false).resp; r.StatusCode != 200 {
		t.Errorf("another token: %d", r.StatusCode)
	}
	for _, w := range all[1:] {
		w.conn.Close()
	}
	s.room(t, 31, "X-Api-Key: "+viewer) // those that left are counted no more
	// A heartbeat comes without events, and removing the token ends the stream.
	beats := 0
	s.do(t, "DELETE", "/api/v1/tokens/watcher", "")
	if e, err := all[0].next(&beats); err != io.EOF {
		t.Errorf("%+v, %v: want the end after the token was revoked", e, err)
	}
	id := s.queue(t)
	for path, want := range map[string]int{
		"/events?after=-1":                  422,
		"/jobs/" + string(id) + "/events?x": 200,
		"/jobs/0":                           422,
		"/jobs/00000000-0000-7000-8000-000000000000/events": 404,
	} {
		if r := s.open(t, path, "", false).resp; r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	if r := s.open(t, "/events", "x", false).resp; r.StatusCode != 422 {
		t.Errorf("Last-Event-ID x: %d, want 422", r.StatusCode)
	}
	if r := s.open(t, "/events", "", false, "Accept-Language: en").resp; r.StatusCode != 401 {
		t.Errorf("without a token: %d, want 401", r.StatusCode)
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.config()
	c.Heartbeat = 30 * time.Millisecond
	s.restart(t, c)
	w := s.open(t, "/events", "", false)
	beats := 0
	ended := make(chan error, 1)
	go func() {
		_, err := w.next(&beats)
		ended <- err
	}()
	id := s.queue(t)
	job := s.open(t, "/jobs/"+string(id)+"/events", "", false)
	job.must(t)
	began := time.Now()
	s.stop()
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("stopping took %s", d)
	}
	if err := <-ended; err != nil && err != io.EOF {
		t.Error(err)
	}
	for {
		if _, err := job.next(nil); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
