package store

import (
	"context"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// CleanupFinished sends the event that a run of the cleanup removed something. taken is the number
// of things removed by each task.
func (db *DB) CleanupFinished(ctx context.Context, taken map[string]int) error {
	return db.sql.Update(ctx, "tell of the cleanup", func(tx *sqldb.Tx) error {
		return outbox.Emit(ctx, tx,
			outbox.Event{Kind: seedbed.EventCleanupFinished, Subject: "cleanup", Data: outbox.Fixed(map[string]any{"taken": taken})})
	})
}

// acceptance returns the event of an accepted job.
func acceptance(a seedbed.Acceptance) outbox.Event {
	j := a.Job
	j.State = seedbed.JobQueued
	if a.Delivery == nil {
		return jobs.EventOf(seedbed.EventJobAccepted, j)
	}
	return jobs.EventOf(seedbed.EventJobAccepted, j, "hook", a.Delivery.Hook, "delivery", a.Delivery.ID)
}

// instanceFacts is an instance as events describe it.
type instanceFacts struct {
	ID      seedbed.InstanceID `json:"id"`
	Name    string             `json:"name"`
	Profile string             `json:"profile,omitempty"`
	Image   string             `json:"image,omitempty"`
	Node    string             `json:"node,omitempty"`
	NICs    []nicFacts         `json:"nics,omitempty"`
}

type nicFacts struct {
	Network string      `json:"network"`
	MAC     seedbed.MAC `json:"mac"`
	Addr    string      `json:"addr"`
}

func factsOf(i seedbed.Instance) instanceFacts {
	f := instanceFacts{ID: i.ID, Name: i.Name, Profile: i.Profile, Image: i.Image, Node: i.Node}
	for _, n := range i.NICs {
		f.NICs = append(f.NICs, nicFacts{n.Network, n.MAC, sqldb.Text(n.Addr)})
	}
	return f
}

// ofInstance returns an event about an instance. job is the job that worked on it, if any.
func ofInstance(kind string, i seedbed.Instance, job seedbed.JobID) outbox.Event {
	data := map[string]any{"instance": factsOf(i)}
	if job != "" {
		data["job"] = job
	}
	return outbox.Event{Kind: kind, Project: i.Project, Subject: i.Name, Data: outbox.Fixed(data)}
}

// noticesOf returns the events of a job's end. j is the job after it ended.
func noticesOf(j seedbed.Job, o seedbed.JobResult) []outbox.Event {
	kind := seedbed.EventJobFailed
	switch {
	case o.State == seedbed.JobSucceeded:
		kind = seedbed.EventJobSucceeded
	case j.Cancel:
		kind = seedbed.EventJobCancelled
	}
	all := []outbox.Event{jobs.EventOf(kind, j)}
	if o.State != seedbed.JobSucceeded {
		return all
	}
	switch {
	case j.Kind == seedbed.JobRemove && o.Drop:
		gone := seedbed.Instance{ID: j.Instance, Project: j.Project, Name: j.Subject, Node: j.Node}
		all = append(all, ofInstance(seedbed.EventInstanceRemoved, gone, j.ID))
	case j.Kind == seedbed.JobCreate || j.Kind == seedbed.JobBackupRestore || j.Kind == seedbed.JobClone:
		data := func(ctx context.Context, tx *sqldb.Tx) (any, error) {
			found, err := instances.Read(ctx, tx, `id = $1`, j.Instance)
			if err != nil || len(found) == 0 || found[0].State != seedbed.InstanceRunning {
				return nil, err // created, but not started
			}
			return ofInstance("", found[0], j.ID).Data(ctx, tx)
		}
		all = append(all, outbox.Event{Kind: seedbed.EventInstanceReady, Project: j.Project, Subject: j.Subject, Data: data})
	}
	return all
}
