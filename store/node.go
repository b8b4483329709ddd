package store

import (
	"context"
	"encoding/json"
	"time"

	"seedbed"
)

const nodeColumns = `name, worker, cordoned, created, report, seen, problem`

func scanNode(r Row) (n seedbed.Node, err error) {
	var cordoned time.Time
	err = r.Scan(&n.Name, &n.Worker, toTime(&cordoned), toTime(&n.Created), toReport{&n.Report}, toTime(&n.Seen), &n.Problem)
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
	return toJSON(c.r).Scan(src)
}

// Nodes returns all nodes sorted by name. Seen is in this process's clock, whichever control host
// saw them.
func (db *DB) Nodes(ctx context.Context) (all []seedbed.Node, err error) {
	err = db.view(ctx, "list nodes", func(tx *Tx) error {
		all, err = list(ctx, tx, scanNode, `SELECT `+nodeColumns+` FROM node ORDER BY name`)
		if err != nil {
			return err
		}
		seen := make([]*seedbed.Node, len(all))
		for i := range all {
			seen[i] = &all[i]
		}
		return db.nodesHere(ctx, tx, seen...)
	})
	return all, err
}

// Node returns the node called name. Seen is in this process's clock.
func (db *DB) Node(ctx context.Context, name string) (n seedbed.Node, err error) {
	err = db.view(ctx, "read node", func(tx *Tx) error {
		n, err = one(ctx, tx, scanNode, noNode(name), `SELECT `+nodeColumns+` FROM node WHERE name = $1`, name)
		if err != nil {
			return err
		}
		return db.nodesHere(ctx, tx, &n)
	})
	return n, err
}

func noNode(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", clean(name, 80))
}

// EnsureNode adds a control host that is also a node; its worker is reached on its local socket. An
// existing node of that name does not change. The first node of all gets the images without a node.
func (db *DB) EnsureNode(ctx context.Context, name string) error {
	if err := checkNode(name); err != nil {
		return err
	}
	return db.update(ctx, "add node "+name, func(tx *Tx) error {
		made, err := insertNode(ctx, tx, seedbed.Node{Name: name, Created: now()}, time.Time{})
		if err != nil || !made {
			return orUnchanged(err)
		}
		return exec(ctx, tx, `UPDATE image SET node = $1 WHERE node = '' AND NOT EXISTS (SELECT 1 FROM node WHERE name <> $1)`, name)
	})
}

// insertNode adds a node. If the node is cordoned, at is since when.
func insertNode(ctx context.Context, tx *Tx, n seedbed.Node, at time.Time) (made bool, err error) {
	rows, err := affect(ctx, tx, `
		INSERT INTO node (name, worker, cordoned, created, report, problem) VALUES ($1, $2, $3, $4, '', '') ON CONFLICT (name) DO NOTHING`,
		n.Name, n.Worker, cordonedAt(n, at), micros(n.Created))
	return rows == 1, err
}

// AddNode adds a node with the name, the worker and the cordon of n; everything else is unknown so
// far. It returns ErrInvalid or ErrExists.
func (db *DB) AddNode(ctx context.Context, n seedbed.Node) (seedbed.Node, error) {
	if err := n.Check(); err != nil {
		return seedbed.Node{}, err
	}
	n = seedbed.Node{Name: n.Name, Worker: n.Worker, Cordoned: n.Cordoned, Created: now()}
	err := db.update(ctx, "add node "+n.Name, func(tx *Tx) error {
		clock, err := db.leaseClock(ctx, tx)
		if err != nil {
			return err
		}
		if made, err := insertNode(ctx, tx, n, clock); err != nil || made {
			return err
		}
		return seedbed.Errorf(seedbed.ErrExists, "node %q exists already", n.Name)
	})
	if err != nil {
		return seedbed.Node{}, err
	}
	return n, nil
}

// ChangeNode changes the address of a node's worker and whether the node is cordoned. change sets
// these, and may be called more than once. ChangeNode returns ErrNotFound, ErrInvalid or the error
// of change.
func (db *DB) ChangeNode(ctx context.Context, name string, change func(*seedbed.Node) error) (n seedbed.Node, err error) {
	err = db.update(ctx, "change node", func(tx *Tx) error {
		was, err := holdNode(ctx, tx, name)
		if err != nil {
			return err
		}
		h, err := db.nodeClocks(ctx, tx)
		if err != nil {
			return err
		}
		was.Seen = h.from(was.Seen)
		n = was
		if err := change(&n); err != nil {
			return err
		}
		n = seedbed.Node{Name: was.Name, Worker: n.Worker, Cordoned: n.Cordoned, Created: was.Created, Report: was.Report, Seen: was.Seen, Problem: was.Problem}
		if n.Worker == was.Worker && n.Cordoned == was.Cordoned {
			return errUnchanged
		}
		if err := seedbed.CheckWorkerURL(n.Worker); err != nil {
			return err
		}
		if n.Cordoned == was.Cordoned { // keep the time since when
			return exec(ctx, tx, `UPDATE node SET worker = $1 WHERE name = $2`, n.Worker, name)
		}
		return exec(ctx, tx, `UPDATE node SET worker = $1, cordoned = $2 WHERE name = $3`, n.Worker, cordonedAt(n, h.shared), name)
	})
	return n, err
}

// cordonedAt returns since when a node is cordoned, as a column stores it: by the clock that leases
// are measured by, or NULL.
func cordonedAt(n seedbed.Node, at time.Time) any {
	if !n.Cordoned {
		return nil
	}
	return micros(at)
}

// holdNode locks the row of a node, so that concurrent changes run one after the other.
func holdNode(ctx context.Context, tx *Tx, name string) (seedbed.Node, error) {
	return one(ctx, tx, scanNode, noNode(name), `UPDATE node SET name = name WHERE name = $1 RETURNING `+nodeColumns, name)
}

// The limits of what is recorded about a node.
const (
	maxReport = 256 << 10
	// nodePatience is how long after a node's last answer a missing answer counts as a problem.
	// Until then, a worker may be restarting, or one of several control hosts cut off.
	nodePatience = 25 * time.Second
)

// NoteNode records the result of asking a node's worker at that time of this process's clock: its
// report, or why there is none if problem is not empty. A problem is recorded only when the node
// has answered no control host for 25 s. NoteNode sends an event when the node stops answering, and
// when it answers again. It returns ErrNotFound if the node does not exist.
func (db *DB) NoteNode(ctx context.Context, name string, report seedbed.NodeReport, problem string, at time.Time) error {
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if len(text) > maxReport {
		return seedbed.Errorf(seedbed.ErrInvalid, "the report of node %q has %d bytes: want at most %d", clean(name, 80), len(text), maxReport)
	}
	if at.IsZero() {
		at = time.Now()
	}
	problem = clean(problem, maxText)
	told := false
	changed, err := db.change(ctx, "note node", func(tx *Tx) error {
		told = false
		was, err := holdNode(ctx, tx, name)
		if err != nil {
			return err
		}
		h, err := db.nodeClocks(ctx, tx)
		if err != nil {
			return err
		}
		was.Seen = h.from(was.Seen)
		since := at.Sub(was.Seen)
		if since < -nodePatience {
			since = nodePatience // the shared clock was set back, and Seen is in the future
		}
		if since < 0 || problem != "" && (problem == was.Problem || since < nodePatience) {
			return errUnchanged // another control host had an answer, or may get one
		}
		if problem != "" {
			err = exec(ctx, tx, `UPDATE node SET problem = $1 WHERE name = $2`, problem, name)
		} else {
			err = exec(ctx, tx, `UPDATE node SET report = $1, seen = $2, problem = '' WHERE name = $3`, string(text), micros(h.to(at)), name)
		}
		news := ofNode(was, problem)
		if told = len(news) > 0; err != nil || !told {
			return err
		}
		if err := emit(ctx, tx, news...); err != nil {
			return err
		}
		return db.announce(ctx, tx)
	})
	if changed && told {
		db.wake()
	}
	return err
}

// ofNode returns the event for a node that now has a problem, or no longer has one.
func ofNode(was seedbed.Node, problem string) []notice {
	answered := was.Problem == "" && !was.Seen.IsZero()
	switch {
	case problem == "" && !answered:
		return []notice{{seedbed.EventNodeUp, was.Name, fixed(map[string]any{"node": was.Name})}}
	case problem != "" && answered:
		return []notice{{seedbed.EventNodeDown, was.Name, fixed(map[string]any{"node": was.Name, "problem": problem, "seen": was.Seen})}}
	}
	return nil
}
