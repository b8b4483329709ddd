package provision

import (
	"context"
	"errors"
	"fmt"

	"seedbed"
)

// Plan says what a create, or with that action a rebuild, would make as things are now, and why it would not be
// accepted. It writes nothing. An error is the store's alone.
func (in *Intake) Plan(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	if req.Action == seedbed.DoRebuild {
		return in.planRebuild(ctx, req)
	}
	p := seedbed.Plan{Name: req.Name, Profile: req.Profile, Node: in.node, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	if err := note(&p, seedbed.CheckInstanceName(req.Name)); err != nil {
		return p, err
	}
	made, err := in.prepare(ctx, req)
	if err != nil {
		return p, note(&p, err)
	}
	inst, image := made.inst, made.image
	p.Image, p.VCPUs, p.Memory, p.Volumes = inst.Image, inst.VCPUs, inst.Memory, inst.Volumes
	if image.Name != "" && image.State != seedbed.ImageActive {
		p.Problems = append(p.Problems, fmt.Sprintf("image %q is %s: wait for its import to end", image.Name, image.State))
	}
	for _, nic := range inst.NICs {
		nic.MAC = seedbed.MAC{} // the job draws another
		nic.Addr, err = in.store.FreeAddr(ctx, nic.Network)
		if err := note(&p, err); err != nil {
			return p, err
		}
		p.NICs = append(p.NICs, nic)
	}
	for i := range p.Volumes {
		p.Volumes[i].Name = "" // of an ID that the job draws
	}
	other, err := in.store.InstanceByName(ctx, req.Name)
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrExists, "instance %q exists already: it is %s", other.Name, other.State)
	} else if errors.Is(err, seedbed.ErrNotFound) {
		err = nil
	}
	return p, note(&p, err)
}

// note keeps what a create would be refused for, and gives back any other error.
func note(p *seedbed.Plan, err error) error {
	if e, ok := errors.AsType[*seedbed.Error](err); ok && e.Kind != seedbed.ErrUnavailable {
		p.Problems = append(p.Problems, e.Msg)
		return nil
	}
	return err
}
