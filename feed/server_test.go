package feed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

func TestServerAnswers(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.publish(guest(1), []byte("one"))
	sum := m.live[instance(1)].UserData.SHA256
	runServer(t, m, socketIn(dir))
	up := newUpstream(socketIn(dir), remotes(t, "node1", socketIn(dir)))
	t.Cleanup(up.close)
	event := `{"seq":1,"instance":"` + string(instance(1)) + `","kind":"access","at":"2026-09-01T00:00:00Z"}`
	spool := strings.Repeat("a", 32)
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
		kind                     string
	}{
		{"feed", "GET", "/v1/feed?node=node1", "", 200, ""},
		{"no node", "GET", "/v1/feed", "", 422, "invalid"},
		{"odd node", "GET", "/v1/feed?node=%01", "", 422, "invalid"},
		{"long node", "GET", "/v1/feed?node=" + strings.Repeat("n", 300), "", 422, "invalid"},
		{"odd revision", "GET", "/v1/feed?node=node1&since=x", "", 422, "invalid"},
		{"negative revision", "GET", "/v1/feed?node=node1&since=-1", "", 422, "invalid"},
		{"odd wait", "GET", "/v1/feed?node=node1&wait=soon", "", 422, "invalid"},
		{"blob", "GET", "/v1/blobs/" + sum, "", 200, ""},
		{"no such blob", "GET", "/v1/blobs/" + strings.Repeat("0", 64), "", 404, "not_found"},
		{"odd blob", "GET", "/v1/blobs/..%2f..%2fetc", "", 422, "invalid"},
		{"applied", "POST", "/v1/applied", `{"node":"node1","revision":1}`, 204, ""},
		{"applied junk", "POST", "/v1/applied", `{`, 422, "invalid"},
		{"applied huge", "POST", "/v1/applied", strings.Repeat(" ", 5000), 422, "invalid"},
		{"negative applied", "POST", "/v1/applied", `{"node":"node1","revision":-1}`, 422, "invalid"},
		{"events", "POST", "/v1/events", `{"node":"node1","spool":"` + spool + `","events":[` + event + `]}`, 204, ""},
		{"password", "POST", "/v1/events", `{"node":"node1","spool":"` + spool + `","events":[` + strings.Replace(event,
			"access", "password", 1) + `]}`, 204, ""},
		{"odd spool", "POST", "/v1/events", `{"node":"node1","spool":"x","events":[]}`, 422, "invalid"},
		{"odd kind", "POST", "/v1/events", `{"node":"node1","spool":"` + spool + `","events":[` + strings.Replace(event,
			"access", "x", 1) + `]}`, 422, "invalid"},
		{"too many", "POST", "/v1/events", `{"node":"node1","spool":"` + spool + `","events":[` + strings.Repeat("1,",
			300) + `1]}`, 422, "invalid"},
		{"elsewhere", "GET", "/v2", "", 404, "internal"},
		{"other method", "DELETE", "/v1/feed", "", 405, "internal"},
	} {
		req, err := http.NewRequest(tt.method, "http://feed"+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := up.targets[0].http.Do(req)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var e errorBody
		if resp.StatusCode >= 400 {
			json.Unmarshal(body, &e)
		}
		if resp.StatusCode != tt.want || e.Kind != tt.kind {
			t.Errorf("%s: %d %q, want %d %q", tt.name, resp.StatusCode, body, tt.want, tt.kind)
		}
	}
}

// TestHugeBody: the server ends the connection, after its answer or before.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	runServer(t, m, socketIn(dir))
	up := newUpstream(socketIn(dir), remotes(t, "node1", socketIn(dir)))
	t.Cleanup(up.close)
	resp, err := up.targets[0].http.Post("http://feed/v1/events", "", strings.NewReader(strings.Repeat(" ", maxEventsBody+1)))
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// broken is a store whose errors must stay inside.
type broken struct{ *memory }

func (broken) NodeBlob(context.Context, string, string) ([]byte, error) {
	return nil, errors.New("disk at /secret/path")
}

func TestInternalErrorsStayInside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runServer(t, broken{newMemory()}, socketIn(dir))
	up := newUpstream(socketIn(dir), remotes(t, "node1", socketIn(dir)))
	t.Cleanup(up.close)
	_, err := up.blob(t.Context(), strings.Repeat("0", 64))
	if err == nil || strings.Contains(err.Error(), "/secret/path") {
		t.Errorf("error %v", err)
	}
}

// whole is the page that was packed.
func whole(t *testing.T, p packedPage) seedbed.FeedPage {
	page := p.FeedPage
	for _, c := range p.changes {
		g, err := c.guest.unpack(c.id)
		if err != nil {
			t.Error(err)
		}
		page.Changes = append(page.Changes, seedbed.FeedChange{Revision: page.Revision, Instance: g.ID, Record: recordOf(g)})
	}
	return page
}

// TestPoll: a change ends the wait, and so does its end.
func TestPoll(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.publish(guest(1), nil)
	runServer(t, m, socketIn(dir))
	up := newUpstream(socketIn(dir), remotes(t, "node1", socketIn(dir)))
	t.Cleanup(up.close)
	began := time.Now()
	page, err := up.page(t.Context(), "node1", position{"g1", 1, 0}, 100*time.Millisecond)
	if err != nil || len(page.changes) != 0 || page.Revision != 1 || page.Snapshot {
		t.Errorf("page %+v, %v", page, err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("waited %v", took)
	}
	type result struct {
		page seedbed.FeedPage
		err  error
	}
	got := make(chan result, 1)
	go func() {
		page, err := up.page(context.Background(), "node1", position{"g1", 1, 0}, time.Minute)
		got <- result{whole(t, page), err}
	}()
	m.publish(guest(2), []byte("two"))
	r := <-got
	if r.err != nil || len(r.page.Changes) != 1 || r.page.Revision != 2 {
		t.Fatalf("page %+v, %v", r.page, r.err)
	}
	want, _ := m.FeedPage(t.Context(), "node1", 1, "g1")
	if diff := cmp.Diff(want, r.page, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

// counting counts the questions for pages.
type counting struct {
	*memory
	asked atomic.Int32
}

func (c *counting) FeedPage(ctx context.Context, node string, since int64, generation string) (seedbed.FeedPage, error) {
	c.asked.Add(1)
	return c.memory.FeedPage(ctx, node, since, generation)
}

// TestBurst: many writes at once are one question to the store, and what is new comes soon.
func TestBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counting{memory: newMemory()}
		s := NewServer(c, quiet)
		got := make(chan seedbed.FeedPage)
		go func() {
			page, err := s.poll(t.Context(), "node1", position{"g1", 0, noPeers}, time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- page
		}()
		for range 200 { // of other things than this node's
			synctest.Wait()
			c.mu.Lock()
			c.wrote()
			c.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		if n := c.asked.Load(); n > 12 {
			t.Errorf("200 writes in 200 ms gave %d questions", n)
		}
		synctest.Wait()
		began := time.Now()
		c.publish(guest(1), nil)
		if page := <-got; len(page.Changes) != 1 || time.Since(began) > 2*settle {
			t.Errorf("%d changes after %v", len(page.Changes), time.Since(began))
		}
	})
}

// TestAwaited: what somebody waits for goes out at once, in the middle of other writes too.
func TestAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := NewServer(m, quiet)
		for n := range 3 {
			got := make(chan seedbed.FeedPage)
			go func() {
				page, err := s.poll(t.Context(), "node1", position{"g1", int64(n), noPeers}, time.Minute)
				if err != nil {
					t.Error(err)
				}
				got <- page
			}()
			for range n { // other writes
				synctest.Wait()
				m.mu.Lock()
				m.wrote()
				m.mu.Unlock()
			}
			synctest.Wait()
			began := time.Now()
			m.awaited(guest(n))
			if page := <-got; len(page.Changes) != 1 || time.Since(began) != 0 {
				t.Errorf("after %d other writes: %d changes after %v", n, len(page.Changes), time.Since(began))
			}
		}
	})
}

// TestLargeSnapshot: a hundred thousand records; with the race detector, which makes them slow, some
// thousands.
func TestLargeSnapshot(t *testing.T) {
	t.Parallel()
	const n = crowd
	dir, m, r := t.TempDir(), newMemory(), &recorder{}
	for i := range n {
		m.live[instance(i)] = guest(i)
	}
	m.revision = n
	m.floor = n
	runServer(t, m, socketIn(dir))
	c := newClient(t, socketIn(dir), dir, r)
	background(t, c.Run)
	deadline := time.Now().Add(5 * time.Minute)
	for !m.ackedAt(n)() {
		if time.Now().After(deadline) {
			t.Fatalf("not applied; status %+v", c.Status())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if s := r.last(); len(all(s)) != n || all(s)[instance(777)].Name != "vm-777" {
		t.Errorf("%d guests", len(all(s)))
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"node":"n","spool":"` + strings.Repeat("a",
		32) + `","events":[{"seq":1,"instance":"` + string(instance(1)) + `","kind":"lease"}]}`))
	f.Add([]byte(`{"node":"n","spool":"` + strings.Repeat("b",
		32) + `","events":[{"seq":2,"instance":"` + string(instance(1)) + `","kind":"password","fields":{"password":"x"}}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		node, spool, events, err := decodeEvents(body)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if checkNode(node) != nil || !spoolForm.MatchString(spool) || len(events) > maxEvents {
			t.Fatalf("accepted %q", body)
		}
	})
}
