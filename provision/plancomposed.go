package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"seedbed"
)

// planComposed says what a create of a provisioner profile would make, and all
// that is in its way at once.
func (in *Intake) planComposed(ctx context.Context, req seedbed.ComposeRequest, p *seedbed.Plan) error {
	c, err := in.store.Composition(ctx, req.Profile)
	if err != nil {
		return note(p, err)
	}
	c = withOVA(c)
	p.VCPUs, p.Memory = c.System.VCPUs, c.System.Memory
	if err := in.missing(ctx, c, p); err != nil {
		return err
	}
	if err := in.planName(ctx, p); err != nil {
		return err
	}
	made, err := in.composition(ctx, req)
	if err != nil {
		return note(p, err)
	}
	p.Image, p.Volumes = made.inst.Image, made.inst.Volumes
	for i := range p.Volumes {
		p.Volumes[i].Name = "" // of an ID that is drawn, or the script's
	}
	node, all, err := in.placer.Explain(ctx, made.demand)
	p.Node, p.Placement = node, all
	if err := note(p, err); err != nil {
		return err
	}
	spec, err := made.spec(req.Undefined)
	if err != nil {
		return fmt.Errorf("encode the create of %s: %w", req.Name, err)
	}
	p.Stages = stagesOf(&seedbed.Job{Kind: seedbed.JobCreate, Spec: spec})
	composedNotes(made, p)
	return errors.Join(in.planNICs(ctx, p, made.inst.NICs, func(int) bool { return made.Network.MAC == "" }), in.planRoom(ctx, p))
}

// missing notes what a composition names and is not there, or not yet.
func (in *Intake) missing(ctx context.Context, c seedbed.Composition, p *seedbed.Plan) error {
	_, err := needsScript(c)
	errs := []error{err}
	for _, n := range c.Network.Networks {
		_, err := in.store.Network(ctx, n.VNI)
		if errors.Is(err, seedbed.ErrNotFound) {
			err = seedbed.Errorf(seedbed.ErrInvalid, `The network VNI "%s" is not present on the cluster`, n.VNI)
		}
		errs = append(errs, err)
	}
	for _, d := range c.Storage.Disks {
		one := c.Storage
		one.Disks = []seedbed.TemplateDisk{d}
		_, err := in.volumes(ctx, one)
		errs = append(errs, err)
		if d.Source == "" {
			continue
		}
		image, err := in.store.Image(ctx, d.Source)
		switch {
		case errors.Is(err, seedbed.ErrNotFound): // told already
			err = nil
		case err == nil && image.State != seedbed.ImageActive:
			err = seedbed.Errorf(seedbed.ErrInUse, "image %q is %s: wait for its import to end", image.Name, image.State)
		}
		errs = append(errs, err)
	}
	for _, err := range errs {
		if err := note(p, err); err != nil {
			return err
		}
	}
	return nil
}

// composedNotes tells what a plan's volumes and NICs do not.
func composedNotes(c composition, p *seedbed.Plan) {
	tell := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	if c.script != nil {
		s := c.Script
		p.Script, p.Image = s.Name, ""
		tell("script %s (revision %d) makes the volumes, by names of its own: those told here are of the storage template %s", s.Name, s.Revision, c.Storage.Name)
		if s.Options.Privileged {
			tell("script %s is privileged: it runs as root of the node with the host's devices", s.Name)
		}
		for _, d := range c.Storage.Disks {
			what := strings.TrimSpace(d.Filesystem + " " + d.Mountpoint)
			if what != "" {
				tell("disk %s is for the script to make: %s", d.Name, what)
			}
		}
	} else if c.Script.Name != "" && strings.TrimSpace(c.Script.Text) != "" {
		tell("script %s is skipped: no disk has a mountpoint or a filesystem, and it is not to run always", c.Script.Name)
	}
	if len(c.inst.NICs) > 0 && c.Network.MAC == "" {
		tell(drawnMACs)
	}
	if c.script == nil {
		tell(drawnVolumes)
	}
	if c.inst.Held {
		tell("it is defined and left off")
	}
}
