package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/placement"
)

// prepared is the instance that a create asks for.
type prepared struct {
	tailored
	inst seedbed.Instance
	// compose makes its documents if they need its addresses; otherwise nil.
	compose func(seedbed.Instance) (seedbed.Documents, error)
	// image is what its first disk is cloned from; the zero value if the first disk comes from a
	// template.
	image seedbed.Image
	// drawn are the NICs whose random MACs may be replaced.
	drawn []int
	// script is what its job needs to run the profile's script; nil if the script is skipped, as
	// skipped says.
	script  *seedbed.ScriptRun
	skipped string
	// why is why it gets its metadata by CD-ROM; empty if it does not.
	why string
	// undefined is set if only its disks are made.
	undefined bool
	// options are those of the request and, where it has none, of the profile.
	options seedbed.JobOptions
	// demand is what it needs of a node, which is not chosen yet.
	demand placement.Demand
}

// spec returns the input of the job that makes it; nil if the profile has no script.
func (p prepared) spec() (json.RawMessage, error) {
	if p.Script == "" {
		return nil, nil
	}
	return json.Marshal(seedbed.ScriptedSpec{
		Profile: p.Name, Revision: p.Revision, Start: !p.inst.Held && !p.undefined, Scripted: p.script != nil, Skipped: p.skipped,
		Undefined: p.undefined,
	})
}

// tailorNew returns what a create makes its instance from, resolved for that instance.
func (in *Intake) tailorNew(ctx context.Context, req seedbed.Request) (m tailored, err error) {
	profile, err := in.origin(ctx, req)
	if err != nil {
		return m, err
	}
	if req, err = fresh(req, &profile); err != nil {
		return m, err
	}
	if m, err = in.tailor(ctx, profile, seedbed.Named(req.Project, req.Name), req.Params, req.Arguments); err != nil {
		return m, err
	}
	if err := in.look(ctx, &m, seedbed.PublishedImage, req.Project, &m.Image); err != nil || req.NICs != nil {
		return m, err
	}
	m.NICs = slices.Clone(m.NICs)
	names := []*string{&m.Network}
	for i := range m.NICs {
		names = append(names, &m.NICs[i].Network)
	}
	if req.Network != "" { // that of the first NIC, which is the caller's choice
		names = names[min(2, len(names)):]
	}
	for _, name := range names {
		if err := in.look(ctx, &m, seedbed.PublishedNetwork, req.Project, name); err != nil {
			return m, err
		}
	}
	return m, nil
}

// prepare makes the instance that a create asks for. It writes nothing.
func (in *Intake) prepare(ctx context.Context, req seedbed.Request, m tailored) (made prepared, err error) {
	made.undefined = req.Undefined
	made.options = req.JobOptions.Over(seedbed.JobOptions{OnFailure: m.OnFailure})
	s, err := shapeOf(m.Profile, m.given)
	if err != nil {
		return made, err
	}
	if _, _, err := needsScript(m); err != nil {
		return made, err
	}
	read := in.nics
	switch {
	case req.NICs != nil:
		read = in.requestedNICs
	case len(m.NICs) > 0:
		read = in.profileNICs
	}
	nics, drawn, err := read(ctx, m, req)
	if err != nil {
		return made, err
	}
	if s.bootFrom == seedbed.BootNetwork && len(nics) == 0 {
		return made, seedbed.Errorf(seedbed.ErrInvalid, "boot_from is network, and the instance has no NIC: expected one, or boot_from disk")
	}
	if made.why, err = in.byCDROM(ctx, req, &m, &s, nics); err != nil {
		return made, err
	}
	made.tailored = m
	docs, err := in.recipeOf(m, &s, nil)
	if err != nil {
		return made, err
	}
	if made.image, err = in.image(ctx, m.Profile, s); err != nil {
		return made, err
	}
	if err := in.grouped(ctx, req, m.SecurityGroups, nics); err != nil {
		return made, err
	}
	for i := range nics {
		nics[i].BandwidthIn, nics[i].BandwidthOut = cmp.Or(nics[i].BandwidthIn, m.BandwidthIn), cmp.Or(nics[i].BandwidthOut, m.BandwidthOut)
	}
	if err := cmp.Or(in.scriptable(ctx, m, nics), in.keepable(ctx, m, nics)); err != nil {
		return made, err
	}
	if docs.only6, err = in.only6(ctx, nics); err != nil {
		return made, err
	}
	iso, err := in.iso(ctx, req.Project, m, s)
	if err != nil {
		return made, err
	}
	disks, err := in.disks(ctx, m, made.image, s.disk, iso.Pool)
	if err != nil {
		return made, err
	}
	made.drawn = drawn
	made.inst, made.compose, err = in.newInstance(seedbed.Named(req.Project, req.Name), m.Profile, s, docs)
	if err != nil {
		return made, err
	}
	in.fit(&made.inst, m, s)
	made.inst.CDROM = iso.Name
	if made.inst.PlacementGroup, err = in.placementGroup(ctx, req.Project, s.group); err != nil {
		return made, err
	}
	if made.inst.Expiry, err = seedbed.ParseExpiry(req.Expires, req.AtExpiry, time.Now()); err != nil {
		return made, err
	}
	made.inst.Held = made.inst.Held || req.Off || req.Undefined
	made.inst.NICs, made.inst.Volumes = nics, disks
	for i := range made.inst.Volumes {
		made.inst.Volumes[i].Name = fmt.Sprintf("%s-%d", made.inst.ID, i)
	}
	if len(disks) > 0 {
		made.inst.Image = disks[0].Image
	}
	if made.inst.Image == "" { // what it was installed by starts it, also without the ISO image
		made.inst.System.Firmware = cmp.Or(made.inst.System.Firmware, iso.Firmware)
	}
	if t := m.storage(made.image); req.Undefined && t != nil {
		if err := nameDisks(&made.inst, *t); err != nil {
			return made, err
		}
	}
	if made.script, made.skipped, err = in.scriptRun(ctx, m, s, made.image); err != nil {
		return made, err
	}
	var known []seedbed.Image
	if made.image.Name != "" {
		known = append(known, made.image)
	}
	if iso.Name != "" {
		known = append(known, iso)
	}
	made.demand, err = in.demands(ctx, made.inst, m.parts.System, disks, req.Node, known...)
	if iso.Name != "" && !slices.Contains(made.demand.Pools, iso.Pool) {
		made.demand.Pools = append(made.demand.Pools, iso.Pool)
	}
	return made, err
}

// nameDisks gives the volumes the names that PVC gives the disks of a VM. It returns ErrInvalid for a
// name that is too long.
func nameDisks(inst *seedbed.Instance, t seedbed.StorageTemplate) error {
	for i := range inst.Volumes {
		if i >= len(t.Disks) {
			break
		}
		name := fmt.Sprintf("%s_%s", inst.FullName(), t.Disks[i].Name)
		if err := seedbed.CheckName("volume", name); err != nil {
			return fmt.Errorf("%w: choose a shorter name for the instance or the disk", err)
		}
		inst.Volumes[i].Name = name
	}
	return nil
}
