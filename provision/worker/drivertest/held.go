package drivertest

import (
	"maps"
	"slices"

	"seedbed"
)

// Held is a mapping or a mount of a volume that a worker has open for a job.
type Held struct {
	Job    seedbed.JobID
	Volume string
}

// Mappings returns the mapped volumes of all instances.
func (p *Pool) Mappings() (all []Held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.volumes)) {
		if m := p.volumes[name].mapped; m != nil {
			all = append(all, Held{m.job, name})
		}
	}
	return all
}

// Mounts returns the file systems that scripts have mounted.
func (s *Scripts) Mounts() (all []Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range slices.Sorted(maps.Keys(s.sessions)) {
		for _, volume := range s.sessions[job].mounted {
			all = append(all, Held{job, volume})
		}
	}
	return all
}

// Sessions returns the jobs whose scripts run.
func (s *Scripts) Sessions() []seedbed.JobID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.sessions))
}

// hold maps a volume for a script, as the worker does by itself, or mounts a mapped one.
func (s *Scripts) hold(in *scriptSession, verb, volume string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	mapped := slices.Contains(in.mapped, volume)
	switch {
	case in.ended:
		return seedbed.Errorf(seedbed.ErrNotFound, "the script has ended")
	case verb == "mount" && !mapped:
		return seedbed.Errorf(seedbed.ErrInvalid, "volume %s is not mapped", volume)
	case verb == "mount":
		in.mounted = append(in.mounted, volume)
		return nil
	case mapped:
		return nil
	case s.Pool == nil:
		return seedbed.Errorf(seedbed.ErrInvalid, "there is no pool to map volume %s of", volume)
	}
	in.mapped = append(in.mapped, volume)
	// No failpoints: what a worker does for a script is not an effect that an engine requests.
	s.Pool.mu.Lock()
	defer s.Pool.mu.Unlock()
	_, err := s.Pool.mapFor(in.job, volume, in.start.Instance)
	return err
}

// end closes a session: first it unmounts, then it unmaps. The lock is held.
func (s *Scripts) end(job seedbed.JobID) {
	in, there := s.sessions[job]
	if !there {
		return
	}
	delete(s.sessions, job)
	in.ended, in.mounted = true, nil
	for _, volume := range in.mapped {
		s.Pool.unmapFor(job, volume)
	}
}

// unmapFor unmaps a volume that is mapped for the job.
func (p *Pool) unmapFor(job seedbed.JobID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, there := p.volumes[name]; there && v.mapped != nil && v.mapped.job == job {
		v.mapped = nil
		p.volumes[name] = v
	}
}

// Foreign returns a domain without Seedbed's tag, with its state; false if there is none with that
// ID. It works even if the hypervisor is set down.
func (h *Hypervisor) Foreign(id seedbed.InstanceID) (seedbed.DomainSpec, seedbed.DomainState, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, there := h.domains[id]
	if !there || !d.foreign {
		return seedbed.DomainSpec{}, "", false
	}
	return d.spec, d.state, true
}

// All returns the domains that carry Seedbed's tag, even if the hypervisor is set down.
func (h *Hypervisor) All() (all []seedbed.DomainInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(h.domains)) {
		if d := h.domains[id]; !d.foreign {
			all = append(all, d.info())
		}
	}
	return all
}
