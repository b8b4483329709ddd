package feed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
)

func openTestSpool(t *testing.T, dir string, most seedbed.Bytes) *Spool {
	t.Helper()
	s, err := OpenSpool(SpoolConfig{Socket: socketIn(dir), Remotes: remotes(t, "node1", socketIn(dir)), Node: "node1",
		Dir: dir, MaxBytes: most, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func event(kind string, n int) seedbed.GuestEvent {
	return seedbed.GuestEvent{Instance: instance(n), Kind: kind, At: time.Unix(int64(n), 0).UTC(), Path: "/latest/user-data"}
}

func spoolFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "spool", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSpoolSends(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	runServer(t, m, socketIn(dir))
	s := openTestSpool(t, dir, 0)
	stop := background(t, s.Run)
	for i, kind := range []string{seedbed.GuestAccess, seedbed.GuestLease, seedbed.GuestUserData, seedbed.GuestReport} {
		s.Add(event(kind, i+1))
	}
	if err := s.AddDurable(t.Context(), event(seedbed.GuestReport, 9)); err != nil {
		t.Error(err)
	}
	eventually(t, "all five are there", func() bool { return len(m.got()) == 5 })
	seqs := map[int64]bool{}
	for _, e := range m.got() {
		seqs[e.Seq] = true
		if e.spool != m.got()[0].spool || !e.At.Equal(event(e.Kind, 0).At.Add(e.At.Sub(time.Unix(0, 0)))) {
			t.Errorf("event %+v", e)
		}
	}
	if len(seqs) != 5 {
		t.Errorf("seqs %v", seqs)
	}
	eventually(t, "it is counted", func() bool { return s.Stats().Sent == 5 && s.Stats().Waiting == 0 })
	stop()
	if files := spoolFiles(t, dir); len(files) != 0 {
		t.Errorf("files are left: %v", files)
	}
	if err := s.AddDurable(t.Context(), event(seedbed.GuestReport, 9)); !errors.Is(err, ErrSpoolClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSpoolSurvives: events of a process that ended without the server reach it from the next, once
// each, under the old spool's name.
func TestSpoolSurvives(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	first := openTestSpool(t, dir, 0)
	stop := background(t, first.Run)
	if err := first.AddDurable(t.Context(), event(seedbed.GuestReport, 1)); err != nil {
		t.Fatal(err)
	}
	first.Add(event(seedbed.GuestAccess, 2))
	stop()
	if len(spoolFiles(t, dir)) != 2 {
		t.Fatalf("files %v", spoolFiles(t, dir))
	}
	for _, f := range spoolFiles(t, dir) { // a crash cut the last line
		edit(t, f, func(b []byte) []byte { return append(b, `{"seq":99,"inst`...) })
	}

	runServer(t, m, socketIn(dir))
	second := openTestSpool(t, dir, 0)
	background(t, second.Run)
	second.Add(event(seedbed.GuestLease, 3))
	eventually(t, "all three are there", func() bool { return len(m.got()) == 3 })
	spools := map[string]int{}
	for _, e := range m.got() {
		spools[e.spool]++
	}
	if len(spools) != 2 {
		t.Errorf("spools %v", spools)
	}
	eventually(t, "the old files are gone", func() bool { return len(spoolFiles(t, dir)) <= 1 })
}

// TestSpoolLostAnswer: the server has the events, but its answer is lost.
func TestSpoolLostAnswer(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.failEvents = 2
	runServer(t, m, socketIn(dir))
	s := openTestSpool(t, dir, 0)
	background(t, s.Run)
	s.Add(event(seedbed.GuestReport, 1))
	eventually(t, "it is acknowledged", func() bool { return s.Stats().Sent == 1 })
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.events) != 1 || len(m.rows) != 1 {
		t.Errorf("events %v, rows %v", m.events, m.rows)
	}
	for key, n := range m.rows {
		if n != 3 {
			t.Errorf("%s came %d times, want 3 under one name", key, n)
		}
	}
}

// TestSpoolRefusedEvent: one event that the server refuses costs no other.
func TestSpoolRefusedEvent(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	m.refuse = func(seq int64) bool { return seq == 3 }
	s := openTestSpool(t, dir, 0)
	background(t, s.Run)
	for i := range 6 {
		if err := s.AddDurable(t.Context(), event(seedbed.GuestLease, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	runServer(t, m, socketIn(dir))
	eventually(t, "the five others are there", func() bool { return len(m.got()) == 5 })
	eventually(t, "nothing waits", func() bool { return s.Stats().Waiting == 0 })
	if st := s.Stats(); st.Lost != 1 || st.Sent != 5 {
		t.Errorf("stats %+v", st)
	}
}

// TestSpoolBound: access records go first when there is too much.
func TestSpoolBound(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	s := openTestSpool(t, dir, 4*seedbed.MiB)
	long := event(seedbed.GuestAccess, 1)
	long.Path = strings.Repeat("p", 1000)
	key := event(seedbed.GuestLease, 2)
	for range 3 { // below what Run would do, so that each write has a known size
		if err := s.put(classKey, []seedbed.GuestEvent{key}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			many := make([]seedbed.GuestEvent, 1000)
			for i := range many {
				many[i] = long
			}
			if err := s.put(classAccess, many); err != nil {
				t.Fatal(err)
			}
		}
	}
	total := int64(0)
	for _, f := range spoolFiles(t, dir) {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > int64(4*seedbed.MiB) || s.Stats().Dropped == 0 {
		t.Errorf("%d bytes on disk, stats %+v", total, s.Stats())
	}
	runServer(t, m, socketIn(dir))
	background(t, s.Run)
	eventually(t, "nothing waits", func() bool { return s.Stats().Waiting == 0 })
	leases := 0
	for _, e := range m.got() {
		if e.Kind == seedbed.GuestLease {
			leases++
		}
	}
	if leases != 3 || len(m.got()) < 1000 {
		t.Errorf("%d leases among %d events", leases, len(m.got()))
	}
}

// TestSpoolNeverBlocks: more than the queues hold, with nobody writing.
func TestSpoolNeverBlocks(t *testing.T) {
	t.Parallel()
	s := openTestSpool(t, t.TempDir(), 0)
	for i := range queueAccess + 10 {
		s.Add(event(seedbed.GuestAccess, i))
	}
	for i := range queueKey + 5 {
		s.Add(event(seedbed.GuestLease, i))
	}
	if got := s.Stats().Lost; got != 15 {
		t.Errorf("lost %d, want 15", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.AddDurable(ctx, event(seedbed.GuestReport, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AddDurable: %v", err)
	}
}

// TestSpoolDiskFails: who waits is told, the rest is tried again.
func TestSpoolDiskFails(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	runServer(t, m, socketIn(dir))
	s := openTestSpool(t, dir, 0)
	if err := os.RemoveAll(filepath.Join(dir, "spool")); err != nil {
		t.Fatal(err)
	}
	background(t, s.Run)
	s.Add(event(seedbed.GuestUserData, 1))
	if err := s.AddDurable(t.Context(), event(seedbed.GuestReport, 2)); err == nil {
		t.Error("durable on no disk")
	}
	if err := os.MkdirAll(filepath.Join(dir, "spool"), 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the event that could wait is there", func() bool { return len(m.got()) == 1 })
	if got := m.got()[0].Kind; got != seedbed.GuestUserData {
		t.Errorf("kind %q", got)
	}
}

// TestSpoolTellsWhatWasPosted of an earlier process, however many events there are.
func TestSpoolTellsWhatWasPosted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTestSpool(t, dir, 0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	const each = 2 * maxEvents
	for n := range each {
		s.Add(event(seedbed.GuestLease, n+1))
		s.Add(event(seedbed.GuestAccess, n+1))
	}
	posted := event(seedbed.GuestPassword, 7)
	posted.Fields = map[string]string{"password": "secret"}
	for _, e := range []seedbed.GuestEvent{posted, event(seedbed.GuestReport, 8)} {
		if err := s.AddDurable(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	files := spoolFiles(t, dir)
	f, err := os.OpenFile(files[len(files)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"kind":"pass`); err != nil { // a crash cut it
		t.Fatal(err)
	}
	f.Close()
	again := openTestSpool(t, dir, 0)
	var found []string
	for e := range again.Posted() {
		found = append(found, e.Kind+" "+string(e.Instance)+" "+e.Fields["password"])
	}
	want := []string{seedbed.GuestPassword + " " + string(instance(7)) + " secret", seedbed.GuestReport + " " + string(instance(8)) + " "}
	if !slices.Equal(found, want) {
		t.Errorf("posted %q, want %q", found, want)
	}
	for range again.Posted() {
		break // it may end early
	}
	if w := again.Stats().Waiting; w == 0 {
		t.Error("nothing waits to be sent any more")
	}
}
