package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/internal/feedtest"
)

// owned checks I4, I5, I6 and I8, while no job is running.
func (l *lab) owned(s *seen) {
	l.t.Helper()
	hosts := map[string]*host{testNode: l.host}
	if f, ok := l.fleet.(*nodes); ok {
		hosts = f.hosts
	}
	var volumes []seedbed.VolumeInfo
	var domains []seedbed.DomainInfo
	var images []seedbed.ImageInfo
	for _, h := range hosts {
		stored := lister(h.pool)
		if l.watch.stored != nil {
			stored = l.watch.stored
		}
		some, err := stored.Volumes(s.ctx)
		l.ok(err)
		volumes = append(volumes, some...)
		more, err := stored.Images(s.ctx)
		l.ok(err)
		images = append(images, more...)
		domains = append(domains, h.hv.All()...)
		l.heldRight(s, h)
	}
	l.claims(s)
	for _, v := range volumes {
		if !s.volumes[placeOf(v.Instance, v.Name)] && !s.left[v.Instance] && !v.Restored {
			l.violated("I5", "volume %s of instance %s is nobody's", v.Name, v.Instance)
		}
	}
	for _, d := range domains {
		if _, there := s.instances[d.ID]; !there && !s.left[d.ID] {
			l.violated("I5", "domain %s is nobody's", d.Name)
		}
	}
	known, err := l.db.Images(s.ctx)
	l.ok(err)
	for _, i := range images {
		if !slices.ContainsFunc(known, func(k seedbed.Image) bool { return k.Name == i.Name }) && !s.images[i.Name] {
			l.violated("I5", "image %s is nobody's", i.Name)
		}
	}
	l.untouched(s.ctx)
	for node := range hosts {
		l.servedRight(s, node)
	}
}

// heldRight checks I5 for what a worker has open for scripts.
func (l *lab) heldRight(s *seen, h *host) {
	l.t.Helper()
	over := func(id seedbed.JobID) bool { j, there := s.jobs[id]; return !there || j.State.Terminal() }
	for _, id := range h.scripts.Sessions() {
		if over(id) {
			l.violated("I5", "the script of job %s, which has ended, still runs", id)
		}
	}
	for _, m := range h.scripts.Mounts() {
		if over(m.Job) {
			l.violated("I5", "volume %s is mounted for job %s, which has ended", m.Volume, m.Job)
		}
	}
	for _, m := range h.pool.Mappings() {
		if over(m.Job) {
			l.violated("I5", "volume %s is mapped for job %s, which has ended", m.Volume, m.Job)
		}
	}
}

// claims reads the instances, and checks I4 and, for leases, I5.
func (l *lab) claims(s *seen) {
	l.t.Helper()
	all, err := steady(s.ctx, func() ([]seedbed.Instance, error) { return l.db.Instances(s.ctx) })
	l.ok(err)
	held := map[string]string{}
	take := func(name string, what ...any) {
		key := fmt.Sprint(what...)
		if by, twice := held[key]; twice {
			l.violated("I4", "%s is held by %s and by %s", key, by, name)
		}
		held[key] = name
	}
	for _, i := range all {
		s.instances[i.ID] = i
		take(string(i.ID), "name ", i.FullName())
		for _, n := range i.NICs {
			take(i.Name, "mac ", n.MAC)
			take(i.Name, "ip ", n.Network, n.Addr)
		}
		for _, v := range i.Volumes {
			take(i.Name, "volume ", i.Node, v.Pool, v.Name)
			s.volumes[placeOf(i.ID, v.Name)] = true
		}
	}
	own, err := l.db.ProjectVolumes(s.ctx, seedbed.AllProjects())
	l.ok(err)
	for _, v := range own {
		if v.ID != "" {
			take(v.Name, "volume ", v.Node, v.Pool, v.Volume)
			s.volumes[placeOf(v.Owner, v.Volume)] = true
		}
	}
	for _, j := range s.jobs { // the sides of a rebuild that has not ended, or has failed, count as two instances
		if j.Kind != seedbed.JobRebuild || j.State == seedbed.JobSucceeded || j.State == seedbed.JobRolledBack {
			continue
		}
		r, err := l.db.Rebuilding(s.ctx, j.ID)
		if errors.Is(err, seedbed.ErrNotFound) {
			continue
		}
		l.ok(err)
		for _, side := range []*seedbed.Instance{&r.Next, r.Before} {
			for n := 0; side != nil && n < len(side.Volumes); n++ {
				s.volumes[placeOf(j.Instance, side.Volumes[n].Name)] = true
			}
		}
	}
	leases, err := l.db.Leases(s.ctx, seedbed.AllProjects())
	l.ok(err)
	for _, lease := range leases {
		has := func(n seedbed.NIC) bool { return n.MAC == lease.MAC && n.Addr == lease.Addr }
		if !slices.ContainsFunc(s.instances[lease.Instance].NICs, has) {
			l.violated("I5", "the lease of %s by %s is no NIC's of instance %s", lease.Addr, lease.MAC, lease.Instance)
		}
	}
}

// untouched checks I6.
func (l *lab) untouched(ctx context.Context) {
	l.t.Helper()
	if spec, state, there := l.hv.Foreign(strangerDomain); !there || spec.Name != "stranger" || spec.Job != "" || state != seedbed.DomainOff {
		l.violated("I6", "the stranger's domain is %s, %+v, there %v", state, spec, there)
	}
	if _, err := l.pool.Locate(ctx, seedbed.ForeignDisk{Source: "/memory/" + strangerVolume + ".qcow2"}); err != nil {
		l.violated("I6", "the stranger's volume: %v", err)
	}
}

// servedRight checks I8.
func (l *lab) servedRight(s *seen, node string) {
	l.t.Helper()
	page, err := steady(s.ctx, func() (seedbed.FeedPage, error) { return l.db.FeedPage(s.ctx, node, 0, "") })
	l.ok(err)
	working := map[seedbed.InstanceID]bool{} // a rebuild changes the documents before it publishes them
	for _, j := range s.jobs {
		working[j.Instance] = working[j.Instance] || !j.State.Terminal() || s.left[j.Instance]
	}
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest == nil {
			continue
		}
		inst, there := s.instances[c.Guest.ID]
		if !there || inst.Node != node {
			l.violated("I8", "instance %s is served on node %s and is not there", c.Guest.ID, node)
			continue
		}
		for n, nic := range c.Guest.NICs {
			if n >= len(inst.NICs) || nic.MAC != inst.NICs[n].MAC || nic.Addr != inst.NICs[n].Addr {
				l.violated("I8", "instance %s is served NIC %+v, and has %+v", inst.Name, nic, inst.NICs)
			}
		}
		if c.Guest.UserData == nil || working[inst.ID] {
			continue
		}
		if doc, err := l.db.Blob(s.ctx, c.Guest.UserData.SHA256); err != nil || string(doc) != string(inst.UserData) {
			l.violated("I8", "instance %s is served %q, %v", inst.Name, doc, err)
		}
	}
}
