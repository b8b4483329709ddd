package plans

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/metadata"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// seed makes the CD-ROM of an instance that gets its metadata by one, as it is now. It is made before the domain is defined and
// before each start, and goes with the domain.
func (t *task) seed(ctx context.Context, inst seedbed.Instance) error {
	if inst.Metadata.By != seedbed.MetadataCDROM {
		return nil
	}
	networks, err := t.networksOf(ctx, inst)
	if err != nil {
		return err
	}
	v := metadata.View{Guest: t.renderer.Of(inst, seedbed.Guest{}),
		Documents: seedbed.Documents{UserData: inst.UserData, VendorData: inst.VendorData}}
	for _, n := range networks {
		v.Networks = append(v.Networks, n)
	}
	seed := seedbed.Seed{ID: inst.ID, Files: metadata.Seed(v)}
	if err := seed.Check(); err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.SeedDomain.Do(ctx, t.Worker(), call, seed)
	})
	if err != nil {
		return fmt.Errorf("make the CD-ROM of %s: %w", inst.Name, err)
	}
	t.Event("info", 0, "the metadata is on the CD-ROM of the domain")
	return nil
}

// networksOf returns the networks of an instance's NICs, by name.
func (t *task) networksOf(ctx context.Context, inst seedbed.Instance) (map[string]seedbed.Network, error) {
	networks := map[string]seedbed.Network{}
	for _, nic := range inst.NICs {
		network, err := t.store.Network(ctx, nic.Network)
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", nic.Network, engine.FromStore(err))
		}
		networks[nic.Network] = network
	}
	return networks, nil
}
