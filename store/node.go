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
	err = r.Scan(&n.Name, &n.Worker, toTime{&cordoned}, toTime{&n.Created}, toReport{&n.Report}, toTime{&n.Seen}, &n.Problem)
	n.Cordoned = !cordoned.IsZero()
	return n, err
}

// toReport reads a column that is empty before there is a report.
type toReport struct{ r *seedbed.NodeReport }

// Scan implements sql.Scanner.
func (c toReport) Scan(src any) error {
	if src == "" {
		*c.r = seedbed.NodeReport{}
		return nil
	}
	return toJSON{c.r}.Scan(src)
}

// Nodes returns the hypervisors by name. When they were seen is by this process's
// clock, whoever has seen them.
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

// Node returns the hypervisor called name. When it was seen is by this process's clock.
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

// EnsureNode adds a control host that is a hypervisor too, and whose worker is
// reached on its socket; a node of that name stays as it is. The first node of
// all is where the images are of which nobody knows.
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

// insertNode adds a node, cordoned from that time on if it is cordoned.
func insertNode(ctx context.Context, tx *Tx, n seedbed.Node, at time.Time) (made bool, err error) {
	rows, err := affect(ctx, tx, `
		INSERT INTO node (name, worker, cordoned, created, report, problem) VALUES ($1, $2, $3, $4, '', '') ON CONFLICT (name) DO NOTHING`,
		n.Name, n.Worker, cordonedAt(n, at), micros(n.Created))
	return rows == 1, err
}

// AddNode adds a hypervisor, of which nothing is known yet but what n says of its
// name, its worker and whether it is cordoned. Errors: ErrInvalid, ErrExists.
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

// ChangeNode makes a node what change says, which may be called more than once,
// in the address of its worker and in whether it is cordoned. Errors: ErrNotFound,
// ErrInvalid, and those of change.
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
		if n.Cordoned == was.Cordoned { // since when stays
			return exec(ctx, tx, `UPDATE node SET worker = $1 WHERE name = $2`, n.Worker, name)
		}
		return exec(ctx, tx, `UPDATE node SET worker = $1, cordoned = $2 WHERE name = $3`, n.Worker, cordonedAt(n, h.shared), name)
	})
	return n, err
}

// cordonedAt is since when a node takes no new instances, as it is stored: by the
// clock that leases are measured by.
func cordonedAt(n seedbed.Node, at time.Time) any {
	if !n.Cordoned {
		return nil
	}
	return micros(at)
}

// holdNode locks the row of a node, so that of two who change it one sees the other.
func holdNode(ctx context.Context, tx *Tx, name string) (seedbed.Node, error) {
	return one(ctx, tx, scanNode, noNode(name), `UPDATE node SET name = name WHERE name = $1 RETURNING `+nodeColumns, name)
}

// The bounds of what is noted of a node.
const (
	maxReport = 256 << 10
	// nodePatience is how long after a node's last answer one that it did not give
	// counts: a worker may be restarted, and one of several control hosts cut off.
	nodePatience = 25 * time.Second
)

// NoteNode keeps what came of asking a node's worker at that time of this process's
// clock: its report or, if problem is not empty, why there is none. A problem is kept
// once the node has answered nobody for 25 s. When it stops answering, and when it answers again,
// the endpoints are told. A node that does not exist gives ErrNotFound.
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
			since = nodePatience // the shared clock was set back: it was seen at no time that is to come
		}
		if since < 0 || problem != "" && (problem == was.Problem || since < nodePatience) {
			return errUnchanged // somebody has had an answer since, or will
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

// ofNode is what is to be told when a node has a problem now, or none.
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
