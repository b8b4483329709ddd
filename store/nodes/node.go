package nodes

import (
	"context"
	"encoding/json"
	"time"

	"seedbed"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// NodeColumns are the columns that ScanNode reads.
const NodeColumns = `name, worker, cordoned, created, report, seen, problem, fencing`

// ScanNode reads a node from a row of NodeColumns.
func ScanNode(r sqldb.Row) (n seedbed.Node, err error) {
	var cordoned time.Time
	err = r.Scan(&n.Name, &n.Worker, sqldb.ToTime(&cordoned), sqldb.ToTime(&n.Created), toReport{&n.Report}, sqldb.ToTime(&n.Seen), &n.Problem,
		toFencing{&n.Fencing})
	n.Cordoned = !cordoned.IsZero()
	return n, err
}

// toReport scans a node's report. The column is empty until the first report.
type toReport struct{ r *seedbed.NodeReport }

// Scan implements sql.Scanner.
func (c toReport) Scan(src any) error {
	if src == "" {
		*c.r = seedbed.NodeReport{}
		return nil
	}
	return sqldb.ToJSON(c.r).Scan(src)
}

// Nodes returns all nodes sorted by name. Seen is in this process's clock, whichever control host
// saw them.
func (s *Store) Nodes(ctx context.Context) (all []seedbed.Node, err error) {
	err = s.db.View(ctx, "list nodes", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, ScanNode, `SELECT `+NodeColumns+` FROM node ORDER BY name`)
		if err != nil {
			return err
		}
		seen := make([]*seedbed.Node, len(all))
		for i := range all {
			seen[i] = &all[i]
		}
		return s.nodesHere(ctx, tx, seen...)
	})
	return all, err
}

// Node returns the node called name. Seen is in this process's clock.
func (s *Store) Node(ctx context.Context, name string) (n seedbed.Node, err error) {
	err = s.db.View(ctx, "read node", func(tx *sqldb.Tx) error {
		n, err = sqldb.One(ctx, tx, ScanNode, NoNode(name), `SELECT `+NodeColumns+` FROM node WHERE name = $1`, name)
		if err != nil {
			return err
		}
		return s.nodesHere(ctx, tx, &n)
	})
	return n, err
}

// NoNode returns the ErrNotFound of a node that does not exist.
func NoNode(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", sqldb.Clean(name, 80))
}

// InsertNode adds a node. If the node is cordoned, at is since when.
func InsertNode(ctx context.Context, tx *sqldb.Tx, n seedbed.Node, at time.Time) (made bool, err error) {
	rows, err := sqldb.Affect(ctx, tx, `
		INSERT INTO node (`+NodeColumns+`) VALUES ($1, $2, $3, $4, '', NULL, '', '{}') ON CONFLICT (name) DO NOTHING`,
		n.Name, n.Worker, cordonedAt(n, at), sqldb.Micros(n.Created))
	return rows == 1, err
}

// AddNode adds a node with the name, the worker and the cordon of n; everything else is unknown so
// far. It returns ErrInvalid or ErrExists.
func (s *Store) AddNode(ctx context.Context, n seedbed.Node) (seedbed.Node, error) {
	if err := n.Check(); err != nil {
		return seedbed.Node{}, err
	}
	n = seedbed.Node{Name: n.Name, Worker: n.Worker, Cordoned: n.Cordoned, Created: sqldb.Now()}
	defer s.Changed()
	err := s.db.Update(ctx, "add node "+n.Name, func(tx *sqldb.Tx) error {
		clock, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		if made, err := InsertNode(ctx, tx, n, clock); err != nil || made {
			return err
		}
		return seedbed.Errorf(seedbed.ErrExists, "node %q exists already", n.Name)
	})
	if err != nil {
		return seedbed.Node{}, err
	}
	return n, nil
}

// ChangeNode changes the address of a node's worker, whether the node is cordoned, and its fence agent. change sets
// these, and may be called more than once. ChangeNode returns ErrNotFound, ErrInvalid or the error
// of change.
func (s *Store) ChangeNode(ctx context.Context, name string, change func(*seedbed.Node) error) (n seedbed.Node, err error) {
	defer s.Changed()
	err = s.db.Update(ctx, "change node", func(tx *sqldb.Tx) error {
		was, err := HoldNode(ctx, tx, name)
		if err != nil {
			return err
		}
		h, err := s.nodeClocks(ctx, tx)
		if err != nil {
			return err
		}
		was.Seen = h.from(was.Seen)
		n = was
		if err := change(&n); err != nil {
			return err
		}
		n = seedbed.Node{Name: was.Name, Worker: n.Worker, Cordoned: n.Cordoned, Created: was.Created,
			Report: was.Report, Seen: was.Seen, Problem: was.Problem, Fencing: n.Fencing}
		fenced, err := setAgent(ctx, tx, name, was.Fencing, &n.Fencing)
		if err != nil {
			return err
		}
		if n.Worker == was.Worker && n.Cordoned == was.Cordoned {
			if fenced {
				return nil
			}
			return sqldb.ErrUnchanged
		}
		if err := seedbed.CheckWorkerURL(n.Worker); err != nil {
			return err
		}
		if n.Cordoned == was.Cordoned { // keep the time since when
			return sqldb.Exec(ctx, tx, `UPDATE node SET worker = $1 WHERE name = $2`, n.Worker, name)
		}
		err = sqldb.Exec(ctx, tx, `UPDATE node SET worker = $1, cordoned = $2 WHERE name = $3`, n.Worker, cordonedAt(n, h.shared), name)
		if err != nil {
			return err
		}
		return s.cordon(ctx, tx, name, n.Cordoned)
	})
	return n, err
}

// cordonedAt returns since when a node is cordoned, as a column stores it: by the clock that leases
// are measured by, or NULL.
func cordonedAt(n seedbed.Node, at time.Time) any {
	if !n.Cordoned {
		return nil
	}
	return sqldb.Micros(at)
}

// HoldNode locks the row of a node, so that concurrent changes run one after the other.
func HoldNode(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Node, error) {
	return sqldb.One(ctx, tx, ScanNode, NoNode(name), `UPDATE node SET name = name WHERE name = $1 RETURNING `+NodeColumns, name)
}

// The limits of what is recorded about a node.
const (
	maxReport = 256 << 10
	// NodePatience is how long after a node's last answer a missing answer counts as a problem.
	// Until then, a worker may be restarting, or one of several control hosts cut off.
	NodePatience = 25 * time.Second
)

// NoteNode records the result of asking a node's worker at that time of this process's clock: its
// report, or why there is none if problem is not empty. A problem is recorded only when the node
// has answered no control host for 25 s. New NICs get numbers above the highest of the report.
// NoteNode sends an event when the node stops answering, and when it answers again. It returns
// ErrNotFound if the node does not exist.
func (s *Store) NoteNode(ctx context.Context, name string, report seedbed.NodeReport, problem string, at time.Time) error {
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if len(text) > maxReport {
		return seedbed.Errorf(seedbed.ErrInvalid, "the report of node %q has %d bytes: expected at most %d",
			sqldb.Clean(name, 80), len(text), maxReport)
	}
	if at.IsZero() {
		at = time.Now()
	}
	problem = sqldb.Clean(problem, sqldb.MaxText)
	told := false
	changed, err := s.db.Change(ctx, "note node", func(tx *sqldb.Tx) error {
		told = false
		was, err := HoldNode(ctx, tx, name)
		if err != nil {
			return err
		}
		h, err := s.nodeClocks(ctx, tx)
		if err != nil {
			return err
		}
		was.Seen = h.from(was.Seen)
		since := at.Sub(was.Seen)
		if since < -NodePatience {
			since = NodePatience // the shared clock was set back, and Seen is in the future
		}
		if since < 0 || problem != "" && (problem == was.Problem || since < NodePatience) {
			return sqldb.ErrUnchanged // another control host had an answer, or may get one
		}
		if problem != "" {
			err = sqldb.Exec(ctx, tx, `UPDATE node SET problem = $1 WHERE name = $2`, problem, name)
		} else {
			err = sqldb.Exec(ctx, tx, `UPDATE node SET report = $1, seen = $2, problem = '' WHERE name = $3`,
				string(text), sqldb.Micros(h.to(at)), name)
		}
		if err == nil && report.HighestNIC > was.Report.HighestNIC {
			err = s.skipNICs(ctx, tx, report.HighestNIC)
		}
		if err == nil && problem == "" {
			err = s.noteReach(ctx, tx, name, report)
		}
		news := ofNode(was, problem)
		if told = len(news) > 0; err != nil || !told {
			return err
		}
		if err := outbox.Emit(ctx, tx, news...); err != nil {
			return err
		}
		return s.db.Announce(ctx, tx)
	})
	if changed && told {
		s.Changed()
		s.db.Wake()
	}
	return err
}

// skipNICs makes new NICs get numbers above highest, unless that is too far ahead to be Seedbed's.
func (s *Store) skipNICs(ctx context.Context, tx *sqldb.Tx, highest seedbed.NICID) error {
	for _, q := range s.db.Dialect.SkipNICs {
		if err := sqldb.Exec(ctx, tx, q, int64(highest)); err != nil {
			return err
		}
	}
	return nil
}

// ofNode returns the event for a node that now has a problem, or no longer has one.
func ofNode(was seedbed.Node, problem string) []outbox.Event {
	answered := was.Problem == "" && !was.Seen.IsZero()
	switch {
	case problem == "" && !answered:
		return []outbox.Event{{Kind: seedbed.EventNodeUp, Subject: was.Name, Data: outbox.Fixed(map[string]any{"node": was.Name})}}
	case problem != "" && answered:
		return []outbox.Event{{Kind: seedbed.EventNodeDown, Subject: was.Name,
			Data: outbox.Fixed(map[string]any{"node": was.Name, "problem": problem, "seen": was.Seen})}}
	}
	return nil
}

// CheckName returns ErrInvalid unless the name of a node has 1 to 253 bytes.
func CheckName(node string) error {
	const longest = 253 // a domain name (RFC 1035)
	if node == "" || len(node) > longest {
		return seedbed.Errorf(seedbed.ErrInvalid, "node name %q has %d bytes: expected 1 to %d", sqldb.Clean(node, 80), len(node), longest)
	}
	return nil
}

// DropNode deletes a node, and the strays that were found on it.
func DropNode(ctx context.Context, tx *sqldb.Tx, name string) error {
	if err := sqldb.Exec(ctx, tx, `DELETE FROM stray WHERE node = $1`, name); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `DELETE FROM node WHERE name = $1`, name)
}
