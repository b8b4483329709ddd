package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// Plan returns what a create, a rebuild, a migration, a change of a NIC or volume, a job on a snapshot or a backup would make as things
// are now, and why it would not be accepted. It writes nothing. It returns an error only if the store fails.
func (in *Intake) Plan(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	req.Project = cmp.Or(req.Project, seedbed.DefaultProject)
	if req.Action == seedbed.DoRebuild {
		return in.planRebuild(ctx, req)
	}
	if req.Action == seedbed.DoMigrate {
		return in.planMigrate(ctx, req)
	}
	if req.Action == seedbed.DoBackup {
		return in.planBackup(ctx, req)
	}
	if kind, ok := seedbed.NICActions()[req.Action]; ok {
		return in.planNIC(ctx, kind, req)
	}
	if _, ok := seedbed.SnapshotActions()[req.Action]; ok {
		return in.planSnapshot(ctx, req)
	}
	if _, ok := seedbed.ChangeActions()[req.Action]; ok {
		return in.planChange(ctx, req)
	}
	if _, ok := seedbed.VolumeActions()[req.Action]; ok {
		return in.planVolume(ctx, req)
	}
	p := seedbed.Plan{Project: req.Project, Name: req.Name, Profile: req.Profile, Node: req.Node,
		Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	if err := note(&p, seedbed.CheckInstanceName(req.Name)); err != nil {
		return p, err
	}
	m, err := in.tailorNew(ctx, req)
	if err != nil {
		return p, note(&p, err)
	}
	p.VCPUs, p.Memory, p.Ready = m.VCPUs, m.Memory, m.Ready
	if err := in.missing(ctx, m, &p); err != nil {
		return p, err
	}
	if err := in.planName(ctx, &p); err != nil {
		return p, err
	}
	made, err := in.prepare(ctx, req, m)
	if err != nil {
		return p, note(&p, err)
	}
	spec, err := made.spec()
	if err != nil {
		return p, fmt.Errorf("encode the create of %s: %w", req.Name, err)
	}
	p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobCreate, Spec: spec})
	inst := made.inst
	p.Image, p.VCPUs, p.Memory, p.Volumes, p.Ready = inst.Image, inst.VCPUs, inst.Memory, inst.Volumes, inst.Ready
	node, all, err := in.placer.Explain(ctx, made.demand)
	p.Node, p.Placement = node, all
	if err := note(&p, unplaced(ctx, err)); err != nil {
		return p, err
	}
	for i := range p.Volumes {
		p.Volumes[i].Name = "" // it contains an ID that is not drawn yet, or is the script's choice
	}
	made.notes(&p)
	drawn := func(nic int) bool { return slices.Contains(made.drawn, nic) }
	err = errors.Join(in.planNICs(ctx, &p, inst.NICs, drawn), in.planRoom(ctx, &p, made.demand.Sizes))
	if seedbed.IsTenant(ctx) {
		p.Node, p.Placement = "", nil
	}
	return p, err
}

// missing notes what a profile refers to but does not exist, or not yet.
func (in *Intake) missing(ctx context.Context, m tailored, p *seedbed.Plan) error {
	_, _, err := needsScript(m)
	errs := []error{err}
	if t := m.parts.Network; t != nil {
		for _, n := range t.Networks {
			_, err := in.vni(ctx, m, n.VNI)
			errs = append(errs, err)
		}
	}
	images := []string{m.Image}
	if t := m.parts.Storage; t != nil {
		for _, d := range t.Disks {
			one := *t
			one.Disks = []seedbed.TemplateDisk{d}
			_, err := in.volumes(ctx, one, m.parts.OVA)
			errs = append(errs, err)
			images = append(images, d.Source)
		}
	}
	for _, name := range images {
		if name == "" {
			continue
		}
		image, err := in.store.Image(ctx, name)
		switch {
		case errors.Is(err, seedbed.ErrNotFound): // what needs it reports that
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

// notes adds what a plan's volumes and NICs do not show.
func (m prepared) notes(p *seedbed.Plan) {
	tell := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	if e := m.inst.Expiry; e != nil {
		tell("it expires at %s: %s", e.Time.Format(time.RFC3339), e.Event(m.inst.ID).Description)
	}
	if s := m.parts.Script; m.script != nil {
		p.Script, p.Image = s.Name, ""
		tell("script %s (revision %d) makes the volumes and chooses their names: those listed here are from the storage template %s",
			s.Name, s.Revision, m.script.Storage.Name)
		if s.Options.Privileged {
			tell("script %s is privileged: it runs as root of the node with the host's devices, if the node allows that (scripts.privileged)",
				s.Name)
		}
		for _, d := range m.script.Storage.Disks {
			what := strings.TrimSpace(d.Filesystem + " " + d.Mountpoint)
			if what != "" {
				tell("disk %s is for the script to make: %s", d.Name, what)
			}
		}
	} else if m.skipped != "" {
		tell("%s", m.skipped)
	}
	if m.script == nil {
		tell(drawnVolumes)
	}
	if len(m.drawn) > 0 {
		tell(drawnMACs)
	}
	if m.inst.CDROM != "" {
		tell("its CD-ROM drive has the image %s", m.inst.CDROM)
	}
	switch m.inst.System.BootFrom {
	case seedbed.BootNetwork:
		tell("it boots from the network of NIC 0 first, and then from its first disk")
	case seedbed.BootCDROM:
		tell("it boots from its CD-ROM drive first, and then from its first disk")
	}
	if m.inst.System.Firmware != "" {
		tell("its firmware is %s", m.inst.System.Firmware)
	}
	if m.inst.System.TPM {
		tell("it has a TPM, whose state stays on its node")
	}
	if m.inst.System.Restart == seedbed.RestartAlways {
		tell("it is started on another node if its own is fenced")
	}
	if m.inst.PlacementGroup != "" {
		tell("it is in the placement group %s (%s)", m.inst.PlacementGroup, m.demand.Policy)
	}
	tell("%s", m.way())
	if m.inst.Held {
		tell("it is defined and left off")
	}
}

// What no plan can foresee.
const (
	drawnVolumes = "the volumes are named after the instance's ID, which is generated when the job is accepted: ID-0, ID-1 and so on"
	drawnMACs    = "the MAC addresses are generated when the job is accepted"
)

// planNICs adds the NICs with the addresses that are free now. It omits a MAC that the job will
// draw; any other MAC must not be in use.
func (in *Intake) planNICs(ctx context.Context, p *seedbed.Plan, nics []seedbed.NIC, drawn func(nic int) bool) (err error) {
	for i, nic := range nics {
		if drawn(i) {
			nic.MAC = seedbed.MAC{}
		} else if in.serving.MACTaken != nil {
			if by := in.serving.MACTaken(p.Node, nic.MAC); by != "" {
				if err := note(p, macUsed(ctx, nic.MAC, p.Node, by)); err != nil {
					return err
				}
			}
		}
		nic.Addr, err = in.store.FreeAddr(ctx, nic.Network, nic.MAC, nic.Addr)
		if err := note(p, err); err != nil {
			return err
		}
		var asked []netip.Addr
		for _, a := range nic.Secondary {
			if seedbed.AnyFree(a) {
				continue
			}
			asked = append(asked, a)
			_, err := in.store.FreeAddr(ctx, nic.Network, nic.MAC, a)
			if err := note(p, err); err != nil {
				return err
			}
		}
		if free := len(nic.Secondary) - len(asked); free > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("NIC %d gets secondary addresses that are free when the job is accepted: %d", nic.Index, free))
		}
		nic.Secondary = asked
		n, err := in.store.Network(ctx, nic.Network)
		if err := note(p, err); err != nil {
			return err
		}
		if n.Kind.Served() {
			if nic.Groups, err = in.joins(ctx, cmp.Or(p.Project, seedbed.DefaultProject), nic.Groups); err != nil {
				return err
			}
		} else {
			p.Notes = append(p.Notes, fmt.Sprintf("NIC %d is in the direct network %s: no DHCP, filters and security groups of the node, "+
				"which does not reach it there", nic.Index, n.Name))
		}
		if n.Bare() {
			p.Notes = append(p.Notes, fmt.Sprintf("NIC %d is in the network %s without a prefix: it gets no address, and no DHCP of the node",
				nic.Index, n.Name))
		}
		p.NICs = append(p.NICs, nic)
	}
	return nil
}

// joins returns the security groups that a new NIC which asks for some is in.
func (in *Intake) joins(ctx context.Context, project string, asked []string) ([]string, error) {
	if len(asked) > 0 {
		return asked, nil
	}
	name := seedbed.Qualified(project, seedbed.DefaultGroup)
	_, err := in.store.SecurityGroup(ctx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil
	}
	return []string{name}, err
}

// planName notes that another instance of the project has the name.
func (in *Intake) planName(ctx context.Context, p *seedbed.Plan) error {
	other, err := in.store.InstanceByName(ctx, p.FullName())
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrExists, "instance %q exists already: it is %s", other.Name, other.State)
	}
	return note(p, err)
}

// strangerTime is how long a node may take to report whether it has a domain of a name.
const strangerTime = 5 * time.Second

// planDomain notes that the node has a domain of the instance's name that is not one of our instances'.
func (in *Intake) planDomain(ctx context.Context, p *seedbed.Plan) {
	if in.serving.HasDomain == nil || p.Node == "" || len(p.Problems) > 0 || seedbed.IsTenant(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, strangerTime)
	defer cancel()
	switch there, err := in.serving.HasDomain(ctx, p.Node, p.FullName().String()); {
	case err != nil:
		p.Notes = append(p.Notes, fmt.Sprintf("whether node %s has a domain of that name already could not be seen: %s", p.Node, err))
	case there:
		p.Problems = append(p.Problems,
			fmt.Sprintf(
				"node %s already has a domain %q that is not an instance: choose another name, or adopt it (seedbed vm adopt)", p.Node, p.FullName()))
	}
}

// note records why a create would be refused, and returns any other error.
func note(p *seedbed.Plan, err error) error {
	if e, ok := errors.AsType[*seedbed.Error](err); ok && e.Kind != seedbed.ErrUnavailable {
		if !slices.Contains(p.Problems, e.Msg) {
			p.Problems = append(p.Problems, e.Msg)
		}
		return nil
	}
	return err
}
