package worker

import (
	"cmp"
	"context"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// handleDomains adds the effects on domains.
func (s *Server) handleDomains(h effects.Handlers) {
	effects.DefineDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, spec seedbed.DomainSpec) error {
		if err := checkInstance(spec.ID); err != nil {
			return err
		}
		if err := seedbed.CheckFullName(spec.Name); err != nil {
			return err
		}
		return s.hypervisor.DefineDomain(ctx, spec)
	})
	effects.SeedDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, seed seedbed.Seed) error {
		if err := checkInstance(seed.ID); err != nil {
			return err
		}
		return s.hypervisor.SeedDomain(ctx, seed)
	})
	for effect, do := range map[effects.Order[effects.DomainRef]]func(context.Context, seedbed.InstanceID) error{
		effects.StartDomain:    s.startUnmapped,
		effects.ShutdownDomain: s.hypervisor.ShutdownDomain,
		effects.DestroyDomain:  s.hypervisor.DestroyDomain,
		effects.UndefineDomain: s.hypervisor.UndefineDomain,
		effects.UndefineKept:   s.hypervisor.UndefineKept,
		effects.StopMigration:  s.hypervisor.StopMigration,
	} {
		effect.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.DomainRef) error {
			if err := checkInstance(a.ID); err != nil {
				return err
			}
			return do(ctx, a.ID)
		})
	}
	effects.ResizeDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.DomainSize) error {
		if err := checkInstance(a.ID); err != nil {
			return err
		}
		return s.hypervisor.ResizeDomain(ctx, a.ID, a.VCPUs, a.Memory)
	})
	effects.RenameDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.NamedDomain) error {
		if err := cmp.Or(checkInstance(a.ID), seedbed.CheckFullName(a.Name)); err != nil {
			return err
		}
		return s.hypervisor.RenameDomain(ctx, a.ID, a.Name)
	})
	effects.ChangeDomain.Handle(h, func(
		ctx context.Context, _ seedbed.Call, c seedbed.DomainChange, _ effects.Listener,
	) (changed effects.DomainChanged, err error) {
		if err := checkInstance(c.ID); err != nil {
			return changed, err
		}
		changed.Pending, err = s.hypervisor.ChangeDomain(ctx, c)
		return changed, err
	})
	effects.CopyDomain.Handle(h, func(ctx context.Context, a effects.DomainRef) (seedbed.DomainCopy, error) {
		if err := checkInstance(a.ID); err != nil {
			return seedbed.DomainCopy{}, err
		}
		return s.hypervisor.CopyDomain(ctx, a.ID)
	})
	effects.ReceiveDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, c seedbed.DomainCopy) error {
		if err := checkInstance(c.ID); err != nil {
			return err
		}
		return s.hypervisor.ReceiveDomain(ctx, c)
	})
	effects.MigrateDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, m seedbed.Migration, to effects.Listener) (effects.None, error) {
		if err := checkInstance(m.ID); err != nil {
			return effects.None{}, err
		}
		if err := s.incarnation.awake(); err != nil {
			return effects.None{}, err
		}
		return effects.None{}, s.hypervisor.MigrateDomain(ctx, m, to.Progress)
	})
	effects.AttachDisk.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.DiskAttachment) error { return s.attach(ctx, a) })
	effects.LimitDisk.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.DiskLimits) error {
		if err := cmp.Or(checkInstance(a.ID), a.Limits.Check()); err != nil {
			return err
		}
		return s.hypervisor.LimitDisk(ctx, a.ID, a.Serial, a.Limits)
	})
	effects.DetachDisk.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.DiskSerial) error {
		if err := checkInstance(a.ID); err != nil {
			return err
		}
		return s.hypervisor.DetachDisk(ctx, a.ID, a.Serial)
	})
	effects.AttachNIC.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.NICAttachment) error {
		if err := checkInstance(a.ID); err != nil {
			return err
		}
		return s.hypervisor.AttachNIC(ctx, a.ID, a.NIC)
	})
	effects.DetachNIC.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.NICRef) error {
		if err := checkInstance(a.ID); err != nil {
			return err
		}
		return s.hypervisor.DetachNIC(ctx, a.ID, a.MAC)
	})
	effects.DomainState.Handle(h, func(ctx context.Context, a effects.DomainRef) (seedbed.DomainInfo, error) {
		if err := checkInstance(a.ID); err != nil {
			return seedbed.DomainInfo{}, err
		}
		return s.hypervisor.DomainState(ctx, a.ID)
	})
	effects.Console.Handle(h, func(ctx context.Context, a effects.ConsoleTail) ([]byte, error) {
		if err := checkInstance(a.ID); err != nil {
			return nil, err
		}
		if a.Tail <= 0 || a.Tail > effects.MaxConsole {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d bytes of the console are asked for: expected 1 to %s", a.Tail, effects.MaxConsole)
		}
		return s.hypervisor.Console(ctx, a.ID, a.Tail)
	})
	effects.Screenshot.Handle(h, func(ctx context.Context, a effects.DomainRef) ([]byte, error) {
		if err := checkInstance(a.ID); err != nil {
			return nil, err
		}
		select {
		case s.pictures <- struct{}{}:
			defer func() { <-s.pictures }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return s.hypervisor.Screenshot(ctx, a.ID)
	})
	effects.DomainXML.Handle(h, func(ctx context.Context, a effects.DomainRefs) (map[seedbed.InstanceID]string, error) {
		if len(a.IDs) == 0 || len(a.IDs) > effects.MaxDomainXML {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d domains are asked for: expected 1 to %d", len(a.IDs), effects.MaxDomainXML)
		}
		for _, id := range a.IDs {
			if err := checkInstance(id); err != nil {
				return nil, err
			}
		}
		return s.hypervisor.DomainXML(ctx, a.IDs)
	})
	effects.Watch.Handle(h, s.hypervisor.Watch)
	effects.OpenConsole.Handle(h, s.consoles.talk)
	effects.OpenScreen.Handle(h, s.screens.talk)
	agents := agents{s.hypervisor, newResults(time.Now)}
	s.freezes.handle(h)
	effects.GuestExec.Handle(h, agents.exec)
	effects.GuestWait.Handle(h, agents.wait)
	effects.OpenGuestFile.Handle(h, agents.copy)
}
