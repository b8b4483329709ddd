// Package soak runs a whole installation under random faults, and checks from outside what came of
// everything that it had acknowledged. A [Ledger] holds the answers that callers got, a [World] what
// is there afterwards, and [Violations] compares them.
package soak

import (
	"fmt"
	"maps"
	"slices"

	"seedbed"
)

// Ledger is what callers were told. A request whose answer was lost is not in it, except in Asked.
type Ledger struct {
	// Created are the instances of accepted creates, by job.
	Created map[string]string
	// Deliveries are the jobs that each delivery was answered with.
	Deliveries map[string][]string
	// Cancelled are the jobs of which a cancel was accepted.
	Cancelled map[string]bool
	// Removed are the instances whose removal was accepted, with its job.
	Removed map[string]string
	// Asked are the instances whose removal was asked for. Those that are not in Removed may be gone too, because
	// the answer was lost.
	Asked map[string]bool
	// Backward is what was seen to go back while the run lasted: an epoch, or the end of a job.
	Backward []string
}

// World is what is there once all jobs have ended.
type World struct {
	Jobs      []seedbed.Job
	Histories map[string][]seedbed.Event // by job
	Instances []seedbed.Instance
	// Domains are libvirt's, by UUID; the value reports whether it runs.
	Domains map[string]bool
	// Volumes are the files of the pool, without their suffix, and Unfinished those that are being
	// made.
	Volumes, Unfinished []string
	// Told are the types of the events that the endpoint received, by job, each event once.
	Told map[string][]string
}

// Violations returns what contradicts the promises, in words; nil for nothing.
func Violations(l Ledger, w World) []string {
	c := &checker{ledger: l, jobs: map[string]seedbed.Job{}}
	for _, j := range w.Jobs {
		c.jobs[string(j.ID)] = j
	}
	c.acknowledged()
	for _, j := range w.Jobs {
		c.job(j, w.Histories[string(j.ID)], w.Told[string(j.ID)])
	}
	c.resources(w)
	c.found = append(c.found, l.Backward...)
	slices.Sort(c.found)
	return c.found
}

type checker struct {
	ledger Ledger
	jobs   map[string]seedbed.Job
	found  []string
}

func (c *checker) add(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// acknowledged checks that nothing acknowledged is lost, doubled or ignored.
func (c *checker) acknowledged() {
	for delivery, jobs := range c.ledger.Deliveries {
		if len(slices.Compact(slices.Sorted(slices.Values(jobs)))) > 1 {
			c.add("delivery %s has several jobs: %v", delivery, jobs)
		}
	}
	for job, name := range c.ledger.Created {
		if _, there := c.jobs[job]; !there {
			c.add("the job %s of instance %s is lost", job, name)
		}
	}
	for name, job := range c.ledger.Removed {
		if j, there := c.jobs[job]; !there {
			c.add("the removal %s of instance %s is lost", job, name)
		} else if j.State != seedbed.JobSucceeded {
			c.add("the removal %s of instance %s is %s: %s", job, name, j.State, j.Error)
		}
	}
	for job := range c.ledger.Cancelled {
		if j := c.jobs[job]; j.State == seedbed.JobSucceeded || !j.Cancel {
			c.add("the cancel of job %s was accepted and ignored: it is %s", job, j.State)
		}
	}
}

// job checks how a job ended, its history, and what the endpoint was told of it.
func (c *checker) job(j seedbed.Job, history []seedbed.Event, told []string) {
	switch {
	case !j.State.Terminal():
		c.add("%s job %s of %s has not ended: it is %s", j.Kind, j.ID, j.Subject, j.State)
		return
	case j.State == seedbed.JobSucceeded, j.State == seedbed.JobRolledBack && j.Cancel:
	default:
		c.add("%s job %s of %s ended %s without a cancel or not whole: %s", j.Kind, j.ID, j.Subject, j.State, j.Error)
	}
	for i, e := range history {
		if e.Seq != int64(i+1) {
			c.add("event %d of job %s has the number %d", i+1, j.ID, e.Seq)
		}
		if i > 0 && e.At.Before(history[i-1].At) {
			c.add("event %d of job %s is older than the one before", i+1, j.ID)
		}
	}
	want := []string{seedbed.EventJobAccepted, seedbed.EventJobSucceeded}
	if j.State != seedbed.JobSucceeded {
		want[1] = seedbed.EventJobCancelled
		if !j.Cancel {
			want[1] = seedbed.EventJobFailed
		}
	}
	if got := slices.Sorted(slices.Values(told)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		c.add("the endpoint was told %v of job %s, want %v", told, j.ID, want)
	}
}

// resources checks that there is exactly what belongs to the instances, and that these are the ones
// that were asked for.
func (c *checker) resources(w World) {
	domains, volumes := maps.Clone(w.Domains), map[string]bool{}
	for _, v := range w.Volumes {
		volumes[v] = true
	}
	names := map[string]bool{}
	for _, inst := range w.Instances {
		names[inst.Name] = true
		running, defined := domains[string(inst.ID)]
		if !defined {
			c.add("instance %s has no domain", inst.Name)
		} else if running != (inst.State == seedbed.InstanceRunning) {
			c.add("instance %s is %s, and that its domain runs is %t", inst.Name, inst.State, running)
		}
		delete(domains, string(inst.ID))
		for _, v := range inst.Volumes {
			if !volumes[v.Name] {
				c.add("instance %s has lost volume %s", inst.Name, v.Name)
			}
			delete(volumes, v.Name)
		}
		if job, removed := c.ledger.Removed[inst.Name]; removed {
			c.add("instance %s is there after its removal %s", inst.Name, job)
		}
	}
	for job, name := range c.ledger.Created {
		made := c.jobs[job].State == seedbed.JobSucceeded
		if made && !c.ledger.Asked[name] && !names[name] {
			c.add("instance %s of job %s is gone", name, job)
		}
		if !made && names[name] {
			c.add("instance %s is left of job %s, which is %s", name, job, c.jobs[job].State)
		}
	}
	for id := range domains {
		c.add("domain %s belongs to no instance", id)
	}
	for v := range volumes {
		c.add("volume %s belongs to no instance", v)
	}
	for _, f := range w.Unfinished {
		c.add("unfinished file %s is left", f)
	}
}
