package feed

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

func userData(t *testing.T, s seedbed.GuestPlaneState, id seedbed.InstanceID) string {
	t.Helper()
	g, ok := s.Guest(id)
	if !ok || g.UserData == nil {
		t.Fatalf("instance %s or its document is not in revision %d", id, s.Revision)
	}
	b, ok := s.Blob(g.UserData.SHA256)
	if !ok {
		t.Fatalf("document of %s is not there", id)
	}
	return string(b)
}

// all are the guests of a state.
func all(s seedbed.GuestPlaneState) map[seedbed.InstanceID]seedbed.Guest {
	return maps.Collect(s.Guests)
}

// TestFollow: snapshot, change, retraction; stored before acknowledged.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.publish(guest(1), []byte("one"))
	runServer(t, m, socketIn(dir))
	r := &recorder{}
	c := newClient(t, socketIn(dir), dir, r)
	r.check = func(s seedbed.GuestPlaneState) {
		if a := m.acks(); len(a) > 0 && a[len(a)-1] >= s.Revision {
			t.Errorf("revision %d was acknowledged before it was applied", s.Revision)
		}
		if p, err := c.disk.load("node1"); err != nil || p.revision != s.Revision {
			t.Errorf("revision %d is applied, but not on disk", s.Revision)
		}
	}
	background(t, c.Run)

	eventually(t, "the snapshot is acknowledged", m.ackedAt(1))
	if s := r.last(); !s.InSync || userData(t, s, instance(1)) != "one" || len(s.TokenKey) != 32 || len(s.Networks) != 1 {
		t.Errorf("state %+v", s)
	}
	m.publish(guest(2), nil)
	eventually(t, "the change is acknowledged", m.ackedAt(2))
	if s := r.last(); len(all(s)) != 2 {
		t.Errorf("%d guests", len(all(s)))
	}
	m.retract(instance(1))
	eventually(t, "the retraction is acknowledged", m.ackedAt(3))
	if s := r.last(); len(all(s)) != 1 || all(s)[instance(2)].Name != "vm-2" {
		t.Errorf("guests %+v", all(s))
	}
	eventually(t, "the document is gone", func() bool {
		files, err := os.ReadDir(filepath.Join(dir, "blobs"))
		return err == nil && len(files) == 0
	})
	eventually(t, "the status tells", func() bool {
		st := c.Status()
		return st.Connected && st.InSync && st.Guests == 1
	})
	info, err := os.Stat(filepath.Join(dir, "feed.snapshot"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("snapshot file: %v, %v", info.Mode(), err)
	}
}

// TestEmptyInstallation: nothing to serve is in sync as well.
func TestEmptyInstallation(t *testing.T) {
	t.Parallel()
	dir, m, r := t.TempDir(), newMemory(), &recorder{}
	runServer(t, m, socketIn(dir))
	background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "it is acknowledged", m.ackedAt(0))
	if !r.last().InSync {
		t.Error("not in sync")
	}
}

// TestServedFromDisk: a restart without the server, then with it.
func TestServedFromDisk(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.publish(guest(1), []byte("one"))
	stopServer := runServer(t, m, socketIn(dir))
	stopClient := background(t, newClient(t, socketIn(dir), dir, &recorder{}).Run)
	eventually(t, "it is acknowledged", m.ackedAt(1))
	stopClient()
	stopServer()

	r := &recorder{}
	c := newClient(t, socketIn(dir), dir, r)
	background(t, c.Run)
	eventually(t, "the disk is applied", func() bool { return r.count() == 1 })
	if s := r.last(); s.InSync || s.Revision != 1 || userData(t, s, instance(1)) != "one" {
		t.Errorf("state %+v", s)
	}
	eventually(t, "the outage is noticed", func() bool { return c.Status().Problem != "" })
	runServer(t, m, socketIn(dir))
	eventually(t, "the server is back", func() bool { return r.last().InSync })
	if s := r.last(); s.Revision != 1 || len(all(s)) != 1 {
		t.Errorf("state %+v", s)
	}
}

// TestServedFromDiskInTheEnd: what cannot be applied at the start, while the server is away, is
// tried again until it is served.
func TestServedFromDiskInTheEnd(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.publish(guest(1), []byte("one"))
	stopServer := runServer(t, m, socketIn(dir))
	stopClient := background(t, newClient(t, socketIn(dir), dir, &recorder{}).Run)
	eventually(t, "it is acknowledged", m.ackedAt(1))
	stopClient()
	stopServer()

	r := &recorder{fail: 3}
	stop := background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "the disk is applied", func() bool { return r.count() > 0 })
	if s := r.last(); s.InSync || s.Revision != 1 || userData(t, s, instance(1)) != "one" {
		t.Errorf("state %+v", s)
	}
	stop()
	if n := r.count(); n != 1 {
		t.Errorf("applied %d times", n)
	}
}

// TestNewerThanDisk: once the server's state is served, the disk's is not.
func TestNewerThanDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fail: 1 << 30}
		c := NewClient(ClientConfig{Socket: "/nowhere", Node: "node1", Dir: "/nowhere", Applier: r, Log: quiet})
		ctx := t.Context()
		ended := make(chan struct{})
		go func() { c.restore(ctx, seedbed.GuestPlaneState{Revision: 1}, errors.New("at first")); close(ended) }()
		time.Sleep(time.Minute)
		r.allow()
		if err := c.apply(ctx, seedbed.GuestPlaneState{Revision: 2}); err != nil {
			t.Error(err)
		}
		<-ended
		if n := r.count(); n != 1 || r.last().Revision != 2 {
			t.Errorf("applied %d times, last revision %d", n, r.last().Revision)
		}
	})
}

// TestServerRestart: the client goes on where it was, stays in sync, and acknowledges anew.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	dir, m, r := t.TempDir(), newMemory(), &recorder{}
	stop := runServer(t, m, socketIn(dir))
	c := newClient(t, socketIn(dir), dir, r)
	c.cfg.Wait = time.Minute // a poll that waits on would keep the server from ending well
	background(t, c.Run)
	m.publish(guest(1), nil)
	eventually(t, "it is acknowledged", m.ackedAt(1))
	stop()
	before := len(m.acks())
	m.publish(guest(2), nil)
	runServer(t, m, socketIn(dir))
	eventually(t, "the missed change is acknowledged", m.ackedAt(2))
	if len(m.acks()) <= before {
		t.Error("no acknowledgement for the new server")
	}
	for _, s := range r.states {
		if !s.InSync {
			t.Error("not in sync although it had been")
		}
	}
}

// TestLostAck: the answer to an acknowledgement is lost.
func TestLostAck(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.failApplied = 2
	m.publish(guest(1), nil)
	runServer(t, m, socketIn(dir))
	c := newClient(t, socketIn(dir), dir, &recorder{})
	background(t, c.Run)
	eventually(t, "it is acknowledged in the end", func() bool { return c.Status().Acked == 1 })
	if a := m.acks(); len(a) != 3 {
		t.Errorf("acknowledgements %v", a)
	}
}

// TestApplyFails: what cannot be applied is not acknowledged, and is tried again.
func TestApplyFails(t *testing.T) {
	t.Parallel()
	dir, m, r := t.TempDir(), newMemory(), &recorder{fail: 2}
	m.publish(guest(1), []byte("one"))
	r.check = func(seedbed.GuestPlaneState) {
		if len(m.acks()) > 0 {
			t.Error("acknowledged too early")
		}
	}
	runServer(t, m, socketIn(dir))
	background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "it is acknowledged", m.ackedAt(1))
}

// TestWrongDocument: a document that is not what its name says is never served.
func TestWrongDocument(t *testing.T) {
	t.Parallel()
	dir, m, r := t.TempDir(), newMemory(), &recorder{}
	m.publish(guest(1), []byte("right"))
	sum := m.live[instance(1)].UserData.SHA256
	m.blobs[sum] = []byte("wrong")
	runServer(t, m, socketIn(dir))
	c := newClient(t, socketIn(dir), dir, r)
	background(t, c.Run)
	eventually(t, "it is noticed", func() bool { return strings.Contains(c.Status().Problem, "digest") })
	if r.count() != 0 || len(m.acks()) != 0 {
		t.Errorf("applied %d times, acknowledged %v", r.count(), m.acks())
	}
	m.mu.Lock()
	m.blobs[sum] = []byte("right")
	m.mu.Unlock()
	eventually(t, "it is acknowledged", m.ackedAt(1))
	if got := userData(t, r.last(), instance(1)); got != "right" {
		t.Errorf("served %q", got)
	}
}

// TestOtherGeneration: a replaced database starts from a snapshot, and what is not in it goes.
func TestOtherGeneration(t *testing.T) {
	t.Parallel()
	dir, m, r := t.TempDir(), newMemory(), &recorder{}
	m.publish(guest(1), nil)
	m.publish(guest(2), nil)
	stop := runServer(t, m, socketIn(dir))
	background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "it is acknowledged", m.ackedAt(2))
	stop()
	other := newMemory()
	other.generation = "g2"
	other.publish(guest(3), nil)
	runServer(t, other, socketIn(dir))
	eventually(t, "the snapshot is acknowledged", other.ackedAt(1))
	if s := r.last(); len(all(s)) != 1 || all(s)[instance(3)].Name != "vm-3" {
		t.Errorf("guests %+v", all(s))
	}
}

// TestDamagedDisk: what a crash or a disk did to the files costs a snapshot, never a wrong answer.
func TestDamagedDisk(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		damage  func(t *testing.T, dir string)
		node    string
		offline int // guests served without the server; -1 means nothing is applied
		aside   bool
	}{
		"cut": {func(t *testing.T, dir string) {
			edit(t, dir+"/feed.snapshot", func(b []byte) []byte { return b[:len(b)/2] })
		}, "node1", -1, true},
		"flipped": {func(t *testing.T, dir string) {
			edit(t, dir+"/feed.snapshot", func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		}, "node1", -1, true},
		"empty":      {func(t *testing.T, dir string) { edit(t, dir+"/feed.snapshot", func([]byte) []byte { return nil }) }, "node1", -1, true},
		"other node": {func(*testing.T, string) {}, "node2", -1, true},
		"document": {func(t *testing.T, dir string) {
			edit(t, onlyBlob(t, dir), func(b []byte) []byte { return append(b, 'x') })
		}, "node1", 1, false},
		"no document": {func(t *testing.T, dir string) {
			if err := os.Remove(onlyBlob(t, dir)); err != nil {
				t.Fatal(err)
			}
		}, "node1", 1, false},
		"left over": {func(t *testing.T, dir string) { os.WriteFile(dir+"/.feed.snapshot.123", []byte("x"), 0o600) }, "node1", 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, m := t.TempDir(), newMemory()
			m.publish(guest(1), []byte("one"))
			m.publish(guest(2), nil)
			stopServer := runServer(t, m, socketIn(dir))
			stopClient := background(t, newClient(t, socketIn(dir), dir, &recorder{}).Run)
			eventually(t, "it is acknowledged", m.ackedAt(2))
			stopClient()
			stopServer()
			tt.damage(t, dir)

			r := &recorder{}
			c := NewClient(ClientConfig{Socket: socketIn(dir), Remotes: remotes(t, tt.node, socketIn(dir)), Node: tt.node,
				Dir: dir, Applier: r, Log: quiet})
			background(t, c.Run)
			eventually(t, "the outage is noticed", func() bool { return c.Status().Problem != "" })
			if got := r.count(); (got == 0) != (tt.offline < 0) {
				t.Fatalf("applied %d times from disk", got)
			}
			if tt.offline >= 0 && len(all(r.last())) != tt.offline {
				t.Errorf("%d guests from disk, want %d", len(all(r.last())), tt.offline)
			}
			if _, err := os.Stat(dir + "/feed.snapshot.unusable"); (err == nil) != tt.aside {
				t.Errorf("set aside: %v", err)
			}
			if _, err := os.Stat(dir + "/.feed.snapshot.123"); err == nil {
				t.Error("a temporary file was left")
			}
			runServerOf(t, m, socketIn(dir), tt.node)
			eventually(t, "in sync again", func() bool { return r.last().InSync })
			if got := userData(t, r.last(), instance(1)); got != "one" || len(all(r.last())) != 2 {
				t.Errorf("document %q, %d guests", got, len(all(r.last())))
			}
			eventually(t, "the disk is whole again", func() bool {
				p, err := c.disk.load(tt.node)
				return err == nil && len(all(p.view(true))) == 2
			})
		})
	}
}

func edit(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func onlyBlob(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(dir + "/blobs/*")
	if err != nil || len(files) != 1 {
		t.Fatalf("documents %v, %v", files, err)
	}
	return files[0]
}

// TestUnusableDirectory: the one thing that ends Run with an error.
func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newClient(t, "/nowhere", file, &recorder{}).Run(t.Context()); err == nil {
		t.Error("ran on a file")
	}
}

func TestPageRefused(t *testing.T) {
	t.Parallel()
	p := newState()
	p.generation, p.revision = "g1", 5
	bad := guest(1)
	bad.UserData = &seedbed.Blob{SHA256: "../../etc/passwd"}
	other := guest(2)
	for name, page := range map[string]seedbed.FeedPage{
		"other generation": {Generation: "g2", Revision: 6},
		"older":            {Generation: "g1", Revision: 4},
		"document name": {Generation: "g1", Revision: 6, Changes: []seedbed.FeedChange{{Revision: 6, Instance: bad.ID,
			Record: recordOf(bad)}}},
		"other instance": {Generation: "g1", Revision: 6, Changes: []seedbed.FeedChange{{Revision: 6, Instance: bad.ID,
			Record: recordOf(other)}}},
	} {
		packed, err := packPage(page)
		if err == nil {
			_, _, err = p.after(packed)
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
