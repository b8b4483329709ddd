//go:build integration

package zk

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/cleanup"
	"seedbed/store"
)

// init makes this program a participant if a test starts it as one.
func init() { childMain = child }

// child leads. Each time that its context still holds, it prints the time before the check (Unix,
// ns).
func child() {
	args := strings.Fields(os.Getenv("SEEDBED_ZK_CHILD"))
	c := New(Config{Servers: args[:1], SessionTimeout: short, Root: args[1]})
	go c.Run(context.Background())
	c.Lead(context.Background(), "cron", func(ctx context.Context) error {
		for {
			now := time.Now().UnixNano()
			if ctx.Err() != nil {
				return nil
			}
			fmt.Println(now)
			time.Sleep(time.Millisecond)
		}
	})
}

// A leader's process is stopped for longer than its session, and then continues.
func TestLeaderProcessStopped(t *testing.T) {
	t.Parallel()
	zoo := lab.ZooKeeper(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SEEDBED_ZK_CHILD="+zoo.Addr+" /seedbed")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var (
		mu     sync.Mutex
		stamps []time.Time
		read   sync.WaitGroup
	)
	read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if ns, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				mu.Lock()
				stamps = append(stamps, time.Unix(0, ns))
				mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { cmd.Process.Kill(); read.Wait(); cmd.Wait() })
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(stamps) }
	lab.Await(t, lab.Patience, "the child leads", func() bool { return count() > 100 })

	var w witness
	stop := w.lead(t, "other", participant(t, "/seedbed", zoo.Addr))
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, lab.Patience, "the other leads", func() bool { return w.leader() == "other" })
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(short) // time in which the child must not take itself for the leader: see below
	stop()
	before := count()
	lab.Await(t, lab.Patience, "the child leads again", func() bool { return count() > before })
	w.mu.Lock()
	defer w.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	for _, s := range w.spans {
		for _, at := range stamps {
			if !at.Before(s.start) && !at.After(s.end) {
				t.Fatalf("two leaders at %s: the other led from %s to %s", at, s.start, s.end)
			}
		}
	}
}

// slots records which slots were taken, and by whom.
type slots struct {
	*store.DB
	who string
	log *slotLog
}

type slotLog struct {
	mu  sync.Mutex
	ran map[time.Time][]string
	at  []time.Time // when they were taken
}

func (s slots) CronSlot(ctx context.Context, task string, slot time.Time) (bool, error) {
	mine, err := s.DB.CronSlot(ctx, task, slot)
	if mine && err == nil {
		s.log.mu.Lock()
		s.log.ran[slot] = append(s.log.ran[slot], s.who)
		s.log.at = append(s.log.at, time.Now())
		s.log.mu.Unlock()
	}
	return mine, err
}

func (l *slotLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.at)
}

// since returns how many slots of a later time were run.
func (l *slotLog) since(at time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slot := range l.ran {
		if slot.After(at) {
			n++
		}
	}
	return n
}

// check checks that each slot ran once.
func (l *slotLog) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("slots: %v", l.ran)
	for slot, who := range l.ran {
		if len(who) != 1 {
			t.Errorf("slot %s was run by %v", slot, who)
		}
	}
}

// nobody is a worker that does not answer, so that a cleanup ends at once.
type nobody struct{}

func (nobody) Nodes() []seedbed.Node { return []seedbed.Node{{Name: "lab"}} }

func (nobody) Inventory(context.Context, string) (seedbed.Inventory, error) {
	return seedbed.Inventory{}, seedbed.Errorf(seedbed.ErrUnavailable, "not here")
}

// crons starts a cron with one slot a second for each client.
func crons(t *testing.T, clients ...*Client) *slotLog {
	db, err := store.Open(t.Context(), store.Config{Path: t.TempDir() + "/seedbed.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	log := &slotLog{ran: map[time.Time][]string{}}
	for i, c := range clients {
		cleaner := cleanup.New(cleanup.Config{}, db, nobody{})
		cron, err := cleanup.NewCron("@every 1s", slots{db, fmt.Sprint(i), log}, c, cleaner)
		if err != nil {
			t.Fatal(err)
		}
		background(t, cron.Run)
	}
	return log
}

func (l *slotLog) awaitMore(t *testing.T, n int) {
	t.Helper()
	want := l.count() + n
	lab.Await(t, lab.Patience, "slots are run", func() bool { return l.count() >= want })
}

// The only server is down twice for longer than the session. The cron waits and then continues, and
// no slot runs twice.
func TestCronAcrossServerRestart(t *testing.T) {
	t.Parallel()
	zoo := lab.ZooKeeper(t)
	a, b := participant(t, "/seedbed", zoo.Addr), participant(t, "/seedbed", zoo.Addr)
	log := crons(t, a, b)
	var w witness
	stopA, stopB := w.leadRole(t, "witness", "a", a), w.leadRole(t, "witness", "b", b)
	log.awaitMore(t, 3)
	for _, away := range []struct{ stop, start func() }{
		{zoo.Pause, zoo.Resume},
		{zoo.Stop, zoo.Start},
	} {
		away.stop()
		lab.Await(t, lab.Patience, "nobody leads",
			func() bool { return w.leader() == "" && a.leads() == "leads nothing" && b.leads() == "leads nothing" })
		nobody := time.Now()
		time.Sleep(short) // longer than the rest of the session
		if more := log.since(nobody); more != 0 {
			t.Errorf("%d slots were run without a server", more)
		}
		away.start()
		log.awaitMore(t, 3)
	}
	stopA()
	stopB()
	w.check(t)
	log.check(t)
}

// Two of three servers are down. There is no quorum, so there is no leader.
func TestQuorumLost(t *testing.T) {
	t.Parallel()
	zoos := lab.ZooKeepers(t, 3)
	servers := []string{zoos[0].Addr, zoos[1].Addr, zoos[2].Addr}
	a, b := participant(t, "/seedbed", servers...), participant(t, "/seedbed", servers...)
	log := crons(t, a, b)
	log.awaitMore(t, 2)
	zoos[0].Stop()
	log.awaitMore(t, 2) // the first may fail
	zoos[1].Stop()
	lab.Await(t, lab.Patience, "nobody leads", func() bool { return a.leads() == "leads nothing" && b.leads() == "leads nothing" })
	nobody := time.Now()
	time.Sleep(short)
	if more := log.since(nobody); more != 0 {
		t.Errorf("%d slots were run without a quorum", more)
	}
	for _, check := range a.Check(t.Context()) {
		if check.OK || !strings.Contains(check.Hint, "more than half") {
			t.Errorf("check without a quorum: %+v", check)
		}
	}
	zoos[1].Start()
	log.awaitMore(t, 3)
	lab.Await(t, lab.Patience, "the doctor is satisfied", func() bool { return a.Check(t.Context())[0].OK })
	log.check(t)
}
