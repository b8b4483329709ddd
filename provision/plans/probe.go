package plans

import (
	"context"
	"errors"
	"fmt"

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
		p.Addrs = append(append(p.Addrs, nic.Addr), nic.Secondary...)
		if a := network.Addr6(nic.MAC); a.IsValid() {
			p.Addrs = append(p.Addrs, a)
		}
		asked, names[network.Bridge] = append(asked, p), network.Name
	}
	if len(asked) == 0 {
		return nil
	}
	done := t.Yield()
	used, err := effects.ProbeAddresses.Ask(ctx, t.Worker(), asked)
	done()
	switch {
	case errors.Is(err, seedbed.ErrInvalid):
		t.Event("warn", 100, "the addresses of the instance are not probed: %s", err)
		return nil
	case err != nil:
		return fmt.Errorf("probe the addresses of the instance: %w", err)
	case len(used) > 0:
		u := used[0]
		return seedbed.Errorf(seedbed.ErrConflict, "address %s of network %s is used by a host with the MAC address %s, "+
			"which Seedbed does not know: keep the address out of the network (--kept), or free it", u.Addr, names[u.Bridge], u.MAC)
	}
	t.Event("info", 100, "no other host answers for the addresses of the instance")
	return nil
}
