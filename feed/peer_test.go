package feed

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

func peersOf(s seedbed.GuestPlaneState) (names []string) {
	if s.Peers == nil {
		return nil
	}
	for id, g := range s.Peers {
		if one, ok := s.Peer(id); ok && one.Name == g.Name {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestPeers: peers arrive, change and go, without a revision that anybody waits for, and are there after a restart without
// the server.
func TestPeers(t *testing.T) {
	t.Parallel()
	dir, m, r := t.TempDir(), newMemory(), &recorder{}
	m.publish(guest(1), nil)
	m.peer(instance(7), recordOf(guest(7)))
	stopServer := runServer(t, m, socketIn(dir))
	stopClient := background(t, newClient(t, socketIn(dir), dir, r).Run)
	has := func(names ...string) func() bool {
		return func() bool { return slices.Equal(peersOf(r.last()), names) }
	}
	eventually(t, "the first is there", has("vm-7"))
	m.peer(instance(8), recordOf(guest(8)))
	eventually(t, "the second is there", has("vm-7", "vm-8"))
	if s := r.last(); s.Since != 1 || len(s.Changed) != 0 || !slices.Equal(s.ChangedPeers, []seedbed.InstanceID{instance(8)}) {
		t.Errorf("new since %d: %v, peers %v", s.Since, s.Changed, s.ChangedPeers)
	}
	m.peer(instance(7), nil)
	eventually(t, "the first is gone", has("vm-8"))
	if got := slices.Collect(maps.Keys(all(r.last()))); !slices.Equal(got, []seedbed.InstanceID{instance(1)}) {
		t.Errorf("guests %v", got)
	}
	if acks := m.acks(); slices.Max(acks) != 1 {
		t.Errorf("revisions %v were acknowledged", acks)
	}
	stopClient()
	stopServer()

	r = &recorder{}
	background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "the disk is applied", has("vm-8"))
	m.peer(instance(9), recordOf(guest(9)))
	runServer(t, m, socketIn(dir))
	eventually(t, "the server is back", has("vm-8", "vm-9"))

	m.mu.Lock()
	m.generation, m.peers = "g2", nil
	m.wrote()
	m.mu.Unlock()
	eventually(t, "another database has none", has())
}

// TestPeersAlone: changes of peers make a page only once in a while, and come with the others.
func TestPeersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := NewServer(m, quiet)
		began := time.Now()
		poll := func(at position, wait time.Duration) seedbed.FeedPage {
			page, err := s.poll(t.Context(), "node1", at, wait)
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		m.peer(instance(7), recordOf(guest(7)))
		page := poll(position{"g1", 0, 0}, time.Minute)
		if page.Peers == nil || len(page.Peers.Changes) != 1 || time.Since(began) != pollEvery {
			t.Errorf("page %+v after %v", page, time.Since(began))
		}
		began = time.Now()
		m.publish(guest(1), nil)
		page = poll(position{"g1", 0, 0}, time.Minute)
		if page.Peers == nil || page.Revision != 1 || time.Since(began) != 0 {
			t.Errorf("page %+v after %v", page, time.Since(began))
		}
		if page = poll(position{"g1", 1, 1}, 10*time.Second); page.Peers != nil {
			t.Errorf("page %+v without news", page)
		}
		if page = poll(position{"g1", 1, noPeers}, 10*time.Second); page.Peers != nil {
			t.Errorf("page %+v for one that does not follow peers", page)
		}
	})
}

// TestServerWithoutPeers: a server of an earlier release sends no peers. Those that came before stay as long as it has the
// same database.
func TestServerWithoutPeers(t *testing.T) {
	t.Parallel()
	with := mustAfter(t, newState(), seedbed.FeedPage{Snapshot: true, Generation: "g", Revision: 3, Peers: &seedbed.PeerPage{Snapshot: true,
		Revision: 5, Changes: []seedbed.FeedChange{{Instance: instance(7), Record: recordOf(guest(7))}}}})
	for name, tt := range map[string]struct {
		page  seedbed.FeedPage
		peers int
	}{
		"the same database": {seedbed.FeedPage{Generation: "g", Revision: 4}, 1},
		"a snapshot":        {seedbed.FeedPage{Generation: "g", Revision: 4, Snapshot: true}, 1},
		"another database":  {seedbed.FeedPage{Generation: "h", Revision: 4, Snapshot: true}, 0},
		"a later page":      {seedbed.FeedPage{Generation: "g", Revision: 3, Peers: &seedbed.PeerPage{Revision: 6}}, 1},
		"the last one leaves": {seedbed.FeedPage{Generation: "g", Revision: 3, Peers: &seedbed.PeerPage{Revision: 6,
			Changes: []seedbed.FeedChange{{Instance: instance(7)}}}}, 0},
	} {
		if n := len(peersOf(mustAfter(t, with, tt.page).view(true))); n != tt.peers {
			t.Errorf("%s: %d peers, want %d", name, n, tt.peers)
		}
	}
	packed, err := packPage(seedbed.FeedPage{Generation: "g", Revision: 3, Peers: &seedbed.PeerPage{Revision: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := with.after(packed); err == nil {
		t.Error("an earlier revision of peers was accepted")
	}
}

// TestWrongPeers: what is not a revision of peers is refused.
func TestWrongPeers(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	runServer(t, m, socketIn(dir))
	up := newUpstream(socketIn(dir), remotes(t, "node1", socketIn(dir)))
	defer up.close()
	for _, peers := range []string{"x", "-1", "1.5"} {
		q := url.Values{"node": {"node1"}, "peers": {peers}}
		if err := up.call(t.Context(), callTime, "GET", "/v1/feed?"+q.Encode(), nil, nil); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("peers=%s: %v", peers, err)
		}
	}
}
