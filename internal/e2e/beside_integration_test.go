//go:build integration

package e2e

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// lengthy are the tests that boot guests, take servers away or install a Debian, the longest first.
var lengthy = []string{"TestScriptGuest", "TestGuest", "TestEngines", "TestDebianKernel", "TestPackages", "TestTour",
	"TestTwoNodes", "TestMigrate", "TestFailover", "TestKill", "TestMachines", "TestRealClients", "TestBridgedGuest"}

// places are those of tests that run beside each other: one more than there are processors, since some
// wait much of the time.
var places = queue{free: runtime.GOMAXPROCS(0) + 1}

// queue gives places to tests. The longest of those that wait is first, so that it is not left to
// run alone in the end.
type queue struct {
	mu      sync.Mutex
	free    int
	open    bool
	waiting []turn
}

// turn is a test that waits for its place.
type turn struct {
	rank int
	come chan struct{}
}

// beside lets a test run beside others, as t.Parallel does.
func beside(t *testing.T) {
	t.Helper()
	t.Parallel()
	come := places.join(t.Name())
	t.Cleanup(places.leave)
	<-come
}

func (q *queue) join(name string) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	rank := slices.Index(lengthy, name)
	if rank < 0 {
		rank = len(lengthy)
	}
	if !q.open && len(q.waiting) == 0 {
		time.AfterFunc(time.Second, q.begin) // all come together: after this time the longest is there
	}
	come := make(chan struct{})
	q.waiting = append(q.waiting, turn{rank, come})
	q.next()
	return come
}

// begin gives the first places.
func (q *queue) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = true
	q.next()
}

// leave gives a place back.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.next()
}

// next gives the free places; the caller holds mu.
func (q *queue) next() {
	for q.open && q.free > 0 && len(q.waiting) > 0 {
		first := slices.MinFunc(q.waiting, func(a, b turn) int { return a.rank - b.rank })
		q.waiting = slices.DeleteFunc(q.waiting, func(t turn) bool { return t == first })
		q.free--
		close(first.come)
	}
}

// TestMain lets all tests come to beside, unless a flag says how many may.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set("64"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
