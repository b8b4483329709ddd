package store

import (
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
	"seedbed/store/nodes"
)

const (
	// clockOfTheDatabase is the clock of a database on a host of its own, as an SQLite query. It is
	// five minutes slow.
	clockOfTheDatabase = `SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) - 300000000`
	// clockSetBack is the same clock after it was set back by an hour.
	clockSetBack = clockOfTheDatabase + ` - 3600000000`
)

// on runs do on this host, or on a host whose clock is wrong by decades: in a synctest bubble, time
// starts at the beginning of 2000.
func on(t *testing.T, db *DB, host string, do func(*testing.T)) {
	t.Helper()
	if host == "here" {
		do(t)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		do(t)
		db.sql.Wake() // a channel of the bubble must be closed in the bubble
	})
}

// noted records an answer or a problem of that age by the clock of a host.
func noted(t *testing.T, db *DB, host string, age time.Duration, problem string) {
	t.Helper()
	on(t, db, host, func(t *testing.T) {
		if err := db.NoteNode(t.Context(), "node1", seedbed.NodeReport{CPUs: 4}, problem, time.Now().Add(-age)); err != nil {
			t.Error(err)
		}
	})
}

// ofNodes returns a database with a node and with its own clock.
func ofNodes(t *testing.T) *DB {
	t.Helper()
	db := fresh(t)
	db.sql.Dialect.Clock = clockOfTheDatabase
	if err := db.EnsureNode(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestClocksOfHosts checks that a host evaluates correctly when a node was seen, even if its clock
// differs from the clock of the host that saw the node and from the database's.
func TestClocksOfHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		noted, looked string
		age           time.Duration // of the answer that is noted
		want          seedbed.NodeState
	}{
		"now":                           {"here", "here", 0, seedbed.NodeReady},
		"now, elsewhere":                {"elsewhere", "here", 0, seedbed.NodeReady},
		"now, looked at elsewhere":      {"here", "elsewhere", 0, seedbed.NodeReady},
		"long ago":                      {"here", "here", 2 * seedbed.NodeSilence, seedbed.NodeAway},
		"long ago, elsewhere":           {"elsewhere", "here", 2 * seedbed.NodeSilence, seedbed.NodeAway},
		"long ago, looked at elsewhere": {"here", "elsewhere", 2 * seedbed.NodeSilence, seedbed.NodeAway},
		"not so long ago, elsewhere":    {"elsewhere", "here", seedbed.NodeSilence / 2, seedbed.NodeReady},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := ofNodes(t)
			noted(t, db, tt.noted, tt.age, "")
			on(t, db, tt.looked, func(t *testing.T) {
				one := do(db.Node(t.Context(), "node1"))(t)
				for _, n := range append(do(db.Nodes(t.Context()))(t), one) {
					ago := time.Since(n.Seen)
					if d := ago - tt.age; d < -10*time.Second || d > 10*time.Second {
						t.Errorf("it was seen %s ago, want %s", ago, tt.age)
					}
					if state := n.State(time.Now()); state != tt.want {
						t.Errorf("it is %s, want %s", state, tt.want)
					}
				}
			})
		})
	}
}

// TestProblemsOfHosts checks that a problem of one host with a node counts only after the node has
// answered no other host for a while, whatever their clocks are.
func TestProblemsOfHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answered, not string
		age           time.Duration // of the answer
		want          string
	}{
		"just now":             {"elsewhere", "here", 0, ""},
		"a while ago":          {"elsewhere", "here", nodes.NodePatience + 10*time.Second, "refused"},
		"just now, the former": {"here", "elsewhere", 0, ""},
		"a while ago, there":   {"here", "elsewhere", nodes.NodePatience + 10*time.Second, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := ofNodes(t)
			noted(t, db, tt.answered, tt.age, "")
			noted(t, db, tt.not, 0, "refused")
			if n := do(db.Node(t.Context(), "node1"))(t); n.Problem != tt.want {
				t.Errorf("its problem is %q, want %q", n.Problem, tt.want)
			}
		})
	}
}

// TestSharedClockSetBack checks that records from before the clock was set back do not count as
// future ones.
func TestSharedClockSetBack(t *testing.T) {
	t.Parallel()
	for name, problem := range map[string]string{"an answer": "", "none": "refused"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := ofNodes(t)
			noted(t, db, "here", 0, "")
			db.sql.Dialect.Clock = clockSetBack
			noted(t, db, "here", 0, problem)
			n := do(db.Node(t.Context(), "node1"))(t)
			if n.Problem != problem {
				t.Errorf("its problem is %q, want %q", n.Problem, problem)
			}
			if ago := time.Since(n.Seen); problem == "" && (ago < -10*time.Second || ago > 10*time.Second) {
				t.Errorf("it was seen %s ago", ago)
			}
		})
	}
}

// TestCordonOfAnotherHost checks that a cordon set by a host with a slow clock does not appear
// older than it is.
func TestCordonOfAnotherHost(t *testing.T) {
	t.Parallel()
	db := ofNodes(t)
	began := time.Now()
	on(t, db, "elsewhere", func(t *testing.T) {
		do(db.ChangeNode(t.Context(), "node1", func(n *seedbed.Node) error { n.Cordoned = true; return nil }))(t)
	})
	if err := db.awaitCordon(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < cordonTime/2 {
		t.Errorf("waited %s for who may still place instances there", took)
	}
}
