package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
)

// effects returns the table of everything that a client can request.
func (s *Server) effects() effects.Handlers {
	h := effects.Handlers{}
	s.handleDomains(h)
	s.handleImages(h)
	s.handleVolumes(h)
	s.handleTrash(h)
	HandleBackups(h, s.backups, s.log, func(pool string, id seedbed.InstanceID) (Archiver, error) { return s.owned(pool, id) })
	s.handleForeign(h)
	s.handleScripts(h)
	effects.Inventory.Handle(h, func(ctx context.Context, _ effects.None) (seedbed.Inventory, error) { return s.inventory(ctx), nil })
	effects.Health.Handle(h, func(ctx context.Context, _ effects.None) ([]seedbed.Check, error) { return s.Health(ctx), nil })
	effects.Report.Handle(h, func(ctx context.Context, _ effects.None) (seedbed.NodeReport, error) { return s.report(ctx) })
	effects.DomainUsage.Handle(h, func(ctx context.Context, _ effects.None) ([]seedbed.DomainUsage, error) {
		return s.hypervisor.DomainUsage(ctx)
	})
	effects.FenceNode.Handle(h, func(ctx context.Context, _ seedbed.Call, c seedbed.FenceCall, _ effects.Listener) (effects.None, error) {
		return effects.None{}, s.fenceNode(ctx, c)
	})
	effects.FenceStatus.Handle(h, s.fenceStatus)
	effects.Admit.Handle(h, s.admit)
	effects.ProbeAddresses.Handle(h, func(ctx context.Context, asked []seedbed.AddressProbe) (seedbed.AddressesProbed, error) {
		if s.probe == nil {
			return seedbed.AddressesProbed{}, seedbed.Errorf(seedbed.ErrInvalid, "this worker asks nobody for addresses")
		}
		return s.probe(ctx, asked)
	})
	return h
}

func checkInstance(id seedbed.InstanceID) error {
	_, err := seedbed.ParseInstanceID(string(id))
	return err
}

func (s *Server) pool(name string) (Pool, error) {
	if p, ok := s.pools[name]; ok {
		return p, nil
	}
	have := strings.Join(s.poolNames(), ", ")
	if have == "" {
		have = "none"
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "pool %q is not configured on node %s: there is %s", name, s.node, have)
}

func (s *Server) poolNames() []string { return slices.Sorted(maps.Keys(s.pools)) }

// inventory asks the hypervisor and every pool. It contains what they returned; a driver that did
// not answer makes it incomplete.
func (s *Server) inventory(ctx context.Context) seedbed.Inventory {
	inv := seedbed.Inventory{Node: s.node}
	var problems []string
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, what+": "+err.Error())
		}
	}
	domains, err := s.hypervisor.Domains(ctx)
	note("domains", err)
	inv.Domains = domains
	if h, ok := s.hypervisor.(Network); ok {
		taken, err := h.TakenMACs(ctx)
		inv.Taken = taken
		if err != nil { // Seedbed's own domains are still known
			s.log.Warn("list the MAC addresses in use", "err", err)
		}
	}
	for _, name := range s.poolNames() {
		volumes, err := s.pools[name].Volumes(ctx)
		note("volumes of pool "+name, err)
		images, err := s.pools[name].Images(ctx)
		note("images of pool "+name, err)
		inv.Volumes, inv.Images = append(inv.Volumes, volumes...), append(inv.Images, images...)
	}
	inv.Complete, inv.Problem = len(problems) == 0, strings.Join(problems, "; ")
	return inv
}

// lowRoom is the free space below which a pool without a check of its own is reported as low.
const lowRoom = 1 * seedbed.GiB

// Health returns every driver's own checks, those of the hooks' scripts, the room in the pools
// without checks, and those of the configuration.
func (s *Server) Health(ctx context.Context) []seedbed.Check {
	checks := s.hypervisor.Health(ctx)
	if s.checks != nil {
		checks = append(checks, s.checks(ctx)...)
	}
	if c, ok := s.hooks.(Checker); ok {
		checks = append(checks, c.Health(ctx)...)
	}
	for _, name := range s.poolNames() {
		if c, ok := s.pools[name].(Checker); ok {
			checks = append(checks, c.Health(ctx)...)
			continue
		}
		check := seedbed.Check{Name: "pool " + name}
		switch info, err := s.pools[name].Info(ctx); {
		case err != nil:
			check.Detail = err.Error()
		default:
			check.OK = info.Free >= lowRoom
			check.Detail = fmt.Sprintf("%d MiB free of %d MiB", info.Free/seedbed.MiB, info.Size/seedbed.MiB)
		}
		if !check.OK && check.Hint == "" {
			check.Hint = "give the pool room, or remove volumes or images"
		}
		checks = append(checks, check)
	}
	return checks
}
