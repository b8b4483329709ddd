package store

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/feed"
	"seedbed/store/jobs"
	"seedbed/store/nodes"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// checkFailover validates the input of a failover job.
func checkFailover(j seedbed.Job) error {
	var spec seedbed.FailoverSpec
	if err := readSpec(j, &spec); err != nil {
		return err
	}
	return nodes.CheckName(j.Subject)
}

// acceptFailover completes the row of a job that fences a node. There is at most one for a node. One that nobody asked for does not fence
// more than a share of the nodes.
func acceptFailover(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	var spec seedbed.FailoverSpec
	if err := readSpec(*j, &spec); err != nil {
		return err
	}
	// All are locked, so that no other failover counts them at the same time.
	all, err := sqldb.List(ctx, tx, nodes.ScanNode, `UPDATE node SET name = name RETURNING `+nodes.NodeColumns)
	if err != nil {
		return err
	}
	node, err := nodes.HoldNode(ctx, tx, j.Subject)
	if err != nil {
		return err
	}
	j.Project, j.Node, j.Instance = seedbed.DefaultProject, node.Name, ""
	live, err := sqldb.List(ctx, tx, jobs.ScanJob, `SELECT `+jobs.JobColumns+` FROM job WHERE kind = $1 AND id <> $2 AND `+jobs.Live,
		seedbed.JobFailover, j.ID)
	if err != nil {
		return err
	}
	out := map[string]bool{j.Subject: true}
	for _, other := range live {
		if other.Subject == j.Subject {
			return inHandsOf(other, "node", j.Subject)
		}
		out[other.Subject] = true
	}
	for _, n := range all {
		if !n.Fencing.Fenced.IsZero() {
			out[n.Name] = true
		}
	}
	paused, err := maintained(ctx, tx)
	if err != nil {
		return err
	}
	switch {
	case !spec.Confirmed && node.Fencing.Agent == "":
		return seedbed.Errorf(seedbed.ErrConflict, "node %q has no fence agent: give it one (seedbed node fence set %s), or switch it off "+
			"yourself and say so (seedbed node fence confirm %s)", node.Name, node.Name, node.Name)
	case spec.Lost && paused:
		return seedbed.Errorf(seedbed.ErrConflict, "node %q is not fenced: the maintenance mode is on (pvc cluster maintenance off)", node.Name)
	case spec.Lost && !node.Fencing.Fenced.IsZero():
		return seedbed.Errorf(seedbed.ErrConflict, "node %q was fenced already", node.Name)
	case spec.Lost && len(out)*100 > len(all)*spec.Share:
		return seedbed.Errorf(seedbed.ErrConflict, "node %q is not fenced: %d of %d nodes would be then, and fencing.share allows %d %%",
			node.Name, len(out), len(all), spec.Share)
	}
	return nil
}

// settingMaintenance is the key of a setting that is "on" while the maintenance mode is on.
const settingMaintenance = "maintenance"

func maintained(ctx context.Context, tx *sqldb.Tx) (bool, error) {
	v, err := sqldb.Setting(ctx, tx, settingMaintenance)
	return string(v) == "on", err
}

// Maintained reports whether the maintenance mode is on: then no lost node is fenced unless someone asks for it.
func (db *DB) Maintained(ctx context.Context) (on bool, err error) {
	err = db.sql.View(ctx, "read the maintenance mode", func(tx *sqldb.Tx) error {
		on, err = maintained(ctx, tx)
		return err
	})
	return on, err
}

// SetMaintained switches the maintenance mode on or off, and reports whether it was so already.
func (db *DB) SetMaintained(ctx context.Context, on bool) (already bool, err error) {
	err = db.sql.Update(ctx, "switch the maintenance mode", func(tx *sqldb.Tx) error {
		if err := sqldb.LockSetting(ctx, tx, settingMaintenance, []byte("off")); err != nil {
			return err
		}
		was, err := maintained(ctx, tx)
		if already = was == on; err != nil || already {
			return err
		}
		value := "off"
		if on {
			value = "on"
		}
		return sqldb.SetSetting(ctx, tx, settingMaintenance, []byte(value))
	})
	return already, err
}

// NodeFenced records that the node of a job is off. Its incarnation grows, so that its worker does nothing until it was told of that.
// It may be repeated.
func (db *DB) NodeFenced(ctx context.Context, ref seedbed.JobRef) error {
	return db.fencing(ctx, ref, func(f *seedbed.Fencing) string {
		if !f.Fenced.IsZero() {
			return ""
		}
		f.Fenced, f.Incarnation, f.Problem = sqldb.Now(), f.Incarnation+1, ""
		return seedbed.EventNodeFenced
	})
}

// FenceFailed records why the node of a job could not be switched off.
func (db *DB) FenceFailed(ctx context.Context, ref seedbed.JobRef, problem string) error {
	return db.fencing(ctx, ref, func(f *seedbed.Fencing) string {
		if f.Problem == sqldb.Clean(problem, sqldb.MaxText) {
			return ""
		}
		f.Problem = sqldb.Clean(problem, sqldb.MaxText)
		return seedbed.EventNodeFenceFailed
	})
}

// fencing changes the fencing of the node of a job, and sends the event of the type that change returns; empty changes nothing.
func (db *DB) fencing(ctx context.Context, ref seedbed.JobRef, change func(*seedbed.Fencing) string) error {
	defer db.nodeStore.Changed()
	return db.sql.Update(ctx, "record fencing", func(tx *sqldb.Tx) error {
		j, err := jobs.Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if j.Kind != seedbed.JobFailover || j.State != seedbed.JobRunning {
			return seedbed.Errorf(seedbed.ErrConflict, "job %s is a %s job and %s: it does not fence", j.ID.Short(), j.Kind, j.State)
		}
		kind, problem := "", ""
		_, err = nodes.ChangeFencing(ctx, tx, j.Subject, func(f *seedbed.Fencing) error {
			if kind = change(f); kind == "" {
				return sqldb.ErrUnchanged
			}
			problem = f.Problem
			return nil
		})
		if err != nil {
			return err
		}
		if kind == seedbed.EventNodeFenced {
			if err := feed.Fence(ctx, tx, j.Subject, true); err != nil {
				return err
			}
		}
		data := map[string]any{"node": j.Subject, "job": j.ID}
		if problem != "" {
			data["problem"] = problem
		}
		return outbox.Emit(ctx, tx, outbox.Event{Kind: kind, Subject: j.Subject, Data: outbox.Fixed(data)})
	})
}

// Interrupted returns the instances of a node that run as far as is known, and are to be started again if they were not stopped. It
// returns ErrInUse while a job fences the node.
func (db *DB) Interrupted(ctx context.Context, node string) (all []seedbed.Instance, err error) {
	err = db.sql.View(ctx, "list interrupted instances", func(tx *sqldb.Tx) error {
		job, err := sqldb.One(ctx, tx, jobs.ScanJob, nil,
			`SELECT `+jobs.JobColumns+` FROM job WHERE kind = $1 AND subject = $2 AND `+jobs.Live+` LIMIT 1`, seedbed.JobFailover, node)
		if err == nil && job.ID != "" {
			err = inHandsOf(job, "node", node)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err = db.ListInstances(ctx, seedbed.InstanceQuery{Node: node, State: seedbed.InstanceRunning, Scope: seedbed.AllProjects()})
	return slices.DeleteFunc(all, func(i seedbed.Instance) bool { return i.System.Restart != seedbed.RestartAlways }), err
}

// Leaving returns ErrInUse while a job takes an instance from a node that was fenced, without asking that node.
func (db *DB) Leaving(ctx context.Context, node string) error {
	return db.sql.View(ctx, "look for jobs that leave a node", func(tx *sqldb.Tx) error { return leaving(ctx, tx, node) })
}

func leaving(ctx context.Context, tx *sqldb.Tx, node string) error {
	all, err := sqldb.List(ctx, tx, jobs.ScanJob, `SELECT `+jobs.JobColumns+` FROM job WHERE kind = $1 AND `+jobs.Live, seedbed.JobMigrate)
	for _, j := range all {
		var spec seedbed.MigrateSpec
		if err := readSpec(j, &spec); err != nil {
			return err
		}
		if spec.Lost && spec.From == node {
			return inHandsOf(j, "instance", j.Subject)
		}
	}
	return err
}

// Readmit records that a node which was fenced is back, as nodes.Readmit does. It returns the error of Leaving, and ErrConflict if one of
// the instances whose domains were left there is on another node by now.
func (db *DB) Readmit(ctx context.Context, name string, incarnation int64, left []seedbed.InstanceID) error {
	defer db.nodeStore.Changed()
	return db.sql.Update(ctx, "readmit node", func(tx *sqldb.Tx) error {
		err := nodes.Readmit(ctx, tx, name, incarnation, func() error {
			if err := leaving(ctx, tx, name); err != nil {
				return err
			}
			for _, id := range left {
				node, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT node FROM instance WHERE id = $1`, id)
				if err != nil {
					return err
				}
				if node != "" && node != name {
					return seedbed.Errorf(seedbed.ErrConflict, "instance %s is on node %s now, and its domain is left on node %s", id, node, name)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return feed.Fence(ctx, tx, name, false)
	})
}
