package plans

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// publishNew makes the node's guest plane serve an instance whose addresses were free until now. The bridges of its
// networks are there when the guest plane does, so that hosts can be asked.
func (t *task) publishNew(ctx context.Context) error {
	if err := t.publish(ctx); err != nil {
		return err
	}
	return t.refuseUsed(ctx)
}

// refuseUsed returns ErrConflict if a host that Seedbed does not know uses an address of the instance, whose domain must
// be off. A node whose worker is older does not ask.
func (t *task) refuseUsed(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	return t.probe(ctx, inst)
}

// probe returns ErrConflict if a host that Seedbed does not know uses an address of the instance's NICs, whose taps must be absent.
func (t *task) probe(ctx context.Context, inst seedbed.Instance) error {
	var asked []seedbed.AddressProbe
	names := map[string]string{} // of the networks, by bridge
	for _, nic := range inst.NICs {
		network, err := t.store.Network(ctx, nic.Network)
		if err != nil {
			return fmt.Errorf("network %s: %w", nic.Network, engine.FromStore(err))
		}
		if !network.Probed() {
			continue
		}
		p := seedbed.AddressProbe{Bridge: network.Bridge, MAC: nic.MAC}
		for _, a := range append([]netip.Addr{nic.Addr, network.Addr6(nic.MAC)}, nic.Secondary...) {
			if a.IsValid() {
				p.Addrs = append(p.Addrs, a)
			}
		}
		asked, names[network.Bridge] = append(asked, p), network.Name
	}
	if len(asked) == 0 {
		return nil
	}
	done := t.Yield()
	ctx, cancel := context.WithTimeout(ctx, t.Intervals().Call)
	defer cancel()
	probed, err := effects.ProbeAddresses.Ask(ctx, t.Worker(), asked)
	done()
	switch {
	case errors.Is(err, seedbed.ErrInvalid):
		t.Event("warn", 100, "the addresses of the instance are not probed: %s", err)
		return nil
	case err != nil:
		return fmt.Errorf("probe the addresses of the instance: %w", err)
	case len(probed.Used) > 0:
		used := probed.Used[0]
		own := slices.ContainsFunc(inst.NICs, func(n seedbed.NIC) bool { return n.MAC == used.MAC })
		return used.Conflict(names[used.Bridge], own)
	}
	for _, bridge := range slices.Sorted(maps.Keys(probed.Unasked)) {
		t.Event("warn", 100, "no host of network %s was asked for the addresses of the instance: %s", names[bridge], probed.Unasked[bridge])
	}
	if len(probed.Unasked) == 0 {
		t.Event("info", 100, "no other host answers for the addresses of the instance")
	}
	return nil
}
