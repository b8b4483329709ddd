package drivertest

import (
	"context"
	"encoding/json"
	"slices"

	"seedbed"
)

// Reach lets domains migrate from h to the hypervisor to, at uri.
func (h *Hypervisor) Reach(uri string, to *Hypervisor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reached == nil {
		h.reached = map[string]*Hypervisor{}
	}
	h.reached[uri] = to
}

// CopyDomain implements worker.Mover. The definition is the domain's spec.
func (h *Hypervisor) CopyDomain(ctx context.Context, id seedbed.InstanceID) (c seedbed.DomainCopy, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.look(ctx, id)
	if err != nil {
		return c, err
	}
	raw, err := json.Marshal(d.spec)
	return seedbed.DomainCopy{ID: id, XML: string(raw), Console: slices.Clone(d.console)}, err
}

// ReceiveDomain implements worker.Mover.
func (h *Hypervisor) ReceiveDomain(ctx context.Context, c seedbed.DomainCopy) error {
	return h.effect(ctx, "ReceiveDomain", func() error {
		var spec seedbed.DomainSpec
		if err := json.Unmarshal([]byte(c.XML), &spec); err != nil || spec.ID != c.ID {
			return seedbed.Errorf(seedbed.ErrInvalid, "the copy of domain %s is not one of it", c.ID)
		}
		there, err := h.taken(spec)
		if err != nil {
			return err
		}
		if spec.System != nil { // it does not start with the host
			spec.System.Autostart = false
		}
		if !there {
			h.domains[c.ID] = &domain{spec: spec, state: seedbed.DomainOff}
			h.send(h.domains[c.ID], "defined")
		} else if d := h.domains[c.ID]; d.state == seedbed.DomainOff {
			d.spec = spec
		}
		if d := h.domains[c.ID]; len(c.Console) > 0 && !slices.Equal(d.before, c.Console) {
			d.before, d.console = c.Console, append(slices.Clone(c.Console), d.console...)
		}
		return nil
	})
}

// MigrateDomain implements worker.Mover.
func (h *Hypervisor) MigrateDomain(ctx context.Context, m seedbed.Migration, progress func(seedbed.Progress)) error {
	return h.effect(ctx, "MigrateDomain", func() error {
		d, err := h.ours(m.ID)
		switch {
		case err != nil:
			return err
		case d == nil:
			return seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", m.ID)
		case d.state == seedbed.DomainOff && d.migrated:
			return nil
		case d.state != seedbed.DomainRunning && d.state != seedbed.DomainPaused:
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s does not run", d.spec.Name)
		}
		to := h.reached[m.URI]
		if to == nil {
			return seedbed.Errorf(seedbed.ErrConflict, "the hypervisor at %q cannot be reached", m.URI)
		}
		if err := to.arrive(d); err != nil {
			return err
		}
		if progress != nil {
			progress(seedbed.Progress{Done: d.spec.Memory, Total: d.spec.Memory})
		}
		d.state, d.migrated = seedbed.DomainOff, true
		h.send(d, "stopped")
		return nil
	})
}

// arrive takes a domain that runs elsewhere. Hypervisors migrate to each other, so it does not wait for one that is busy.
func (h *Hypervisor) arrive(of *domain) error {
	if !h.mu.TryLock() {
		return seedbed.Errorf(seedbed.ErrUnavailable, "the other hypervisor is busy")
	}
	defer h.mu.Unlock()
	if h.down != nil {
		return seedbed.Errorf(seedbed.ErrConflict, "the other hypervisor: %v", h.down)
	}
	there, err := h.taken(of.spec)
	if err != nil {
		return err
	}
	if there && h.domains[of.spec.ID].state != seedbed.DomainOff {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s runs there already", of.spec.Name)
	}
	d := &domain{spec: of.spec, state: of.state, deaf: of.deaf, agent: of.agent, told: of.told}
	h.domains[of.spec.ID] = d
	h.send(d, "started")
	return nil
}

// StopMigration implements worker.Mover: a migration here takes no time.
func (h *Hypervisor) StopMigration(ctx context.Context, id seedbed.InstanceID) error {
	return h.effect(ctx, "StopMigration", func() error {
		_, err := h.ours(id)
		return err
	})
}
