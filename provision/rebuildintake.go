package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"seedbed"
	"seedbed/provision/template"
)

// rebuild asks for an instance to be given fresh disks. What is not asked for
// otherwise it keeps: its size, keys and metadata options. Its documents and
// image, or of a provisioner profile its disks, are those of its profile as that
// is now. With another profile all of that is the other's. Its name, ID, NICs and tags stay in any case.
func (in *Intake) rebuild(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	job := seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRebuild, State: seedbed.JobQueued}
	next, spec, _, script, err := in.rebuilt(ctx, req, job.ID)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job.Subject, job.Instance, job.Node = next.Name, next.ID, next.Node
	if job.Spec, err = json.Marshal(spec); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the rebuild of %s: %w", next.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery, Rebuild: &next, Script: script, Confirm: req.Confirm})
}

// rebuilt is what the instance becomes, with the image of its disk, or what the
// job carries the script out by that makes its disks.
func (in *Intake) rebuilt(ctx context.Context, req seedbed.Request, job seedbed.JobID) (next seedbed.Instance, spec seedbed.RebuildSpec, image seedbed.Image, script *seedbed.ScriptRun, err error) {
	refused := func(err error) (seedbed.Instance, seedbed.RebuildSpec, seedbed.Image, *seedbed.ScriptRun, error) {
		return next, spec, image, nil, err
	}
	power, given, err := powerSpec(req.Params)
	if err != nil {
		return refused(err)
	}
	for _, once := range []string{"hold", "protected"} {
		if _, ok := given[once]; ok {
			return refused(seedbed.Errorf(seedbed.ErrInvalid, "param %s: a rebuild leaves that as it is (seedbed vm protect, stop and start)", once))
		}
	}
	if _, ok := given["tags"]; ok {
		return refused(seedbed.Errorf(seedbed.ErrInvalid, "param tags: a rebuild keeps the instance's tags: want none here (seedbed vm tag changes them)"))
	}
	if next, err = in.instance(ctx, req.Name); err != nil {
		return refused(err)
	}
	own := req.Profile == "" || req.Profile == next.Profile
	switch c, err := in.composedRebuild(ctx, cmp.Or(req.Profile, next.Profile)); {
	case err != nil:
		return refused(err)
	case c != nil && req.Profile == "" && next.Kind != seedbed.KindProvisioner:
		return refused(seedbed.Errorf(seedbed.ErrConflict, "instance %q was made by a native profile, and %q is a provisioner profile now: name the profile that it is to be rebuilt from", next.Name, c.Profile.Name))
	case c != nil && req.Image != "":
		return refused(seedbed.Errorf(seedbed.ErrInvalid, "image: the disks are those of the storage template of the provisioner profile %q: want no image, or a native profile", c.Profile.Name))
	case c != nil:
		made, err := in.recompose(ctx, next, *c, given, job)
		if err == nil {
			err = in.placer.Fits(ctx, next.Node, made.demand)
		}
		if err != nil {
			return refused(err)
		}
		spec = seedbed.RebuildSpec{PowerSpec: power, Profile: c.Profile.Name, Image: made.inst.Image, Own: req.Profile == "", Scripted: made.script != nil}
		return made.inst, spec, image, made.script, nil
	}
	profile, err := in.profile(ctx, cmp.Or(req.Profile, next.Profile))
	if err != nil {
		return refused(err)
	}
	var stored map[string]any
	if own { // what its templates read stays, but for what is given now
		stored = next.Params
	}
	m, err := in.tailor(ctx, profile, next.Name, over(declaredOf(profile.Params, stored), given))
	if err != nil {
		return refused(err)
	}
	if err := in.checkParts(m); err != nil {
		return refused(err)
	}
	if m.Image = cmp.Or(req.Image, m.Image); req.Image != "" {
		if err := seedbed.CheckName("image", req.Image); err != nil {
			return refused(err)
		}
	}
	if own {
		keep(&m.Profile, next)
	}
	if m.Image != "" {
		image, err = in.store.Image(ctx, m.Image)
		if errors.Is(err, seedbed.ErrNotFound) {
			err = seedbed.Errorf(seedbed.ErrInvalid, "image %q does not exist", m.Image)
		}
		if err != nil {
			return refused(err)
		}
	}
	if own {
		m.DiskSize = max(m.DiskSize, image.Size)
	}
	m.Tags = next.Tags
	s, err := shapeOf(m.Profile, m.given)
	if err != nil {
		return refused(err)
	}
	if image, err = in.image(ctx, m.Profile, s); err != nil {
		return refused(err)
	}
	docs, err := in.recipeOf(m, &s, stored)
	if err != nil {
		return refused(err)
	}
	disks, err := in.disks(ctx, m, image, s.disk)
	if err != nil {
		return refused(err)
	}
	for i := 1; own && i < min(len(disks), len(next.Volumes)); i++ { // one that has grown; the first has what is asked for
		disks[i].Size = max(disks[i].Size, next.Volumes[i].Size)
	}
	needs, err := in.demands(ctx, next, m.parts.System, disks, "")
	if err == nil {
		err = in.placer.Fits(ctx, next.Node, needs)
	}
	if err != nil {
		return refused(err)
	}
	spec = seedbed.RebuildSpec{PowerSpec: power, Profile: m.Name, Image: disks[0].Image, Own: req.Profile == ""}
	err = in.remake(&next, m, disks, s, docs, job)
	return next, spec, image, nil, err
}

// declaredOf are those of an instance's params that are declared now.
func declaredOf(declared []seedbed.Param, stored map[string]any) map[string]any {
	kept := map[string]any{}
	for _, param := range declared {
		if v, ok := stored[param.Name]; ok {
			kept[param.Name] = v
		}
	}
	return kept
}

// over are params with others in their place.
func over(params, others map[string]any) map[string]any {
	all := maps.Clone(params)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, others)
	return all
}

// keep has a profile ask for what an instance of it has.
func keep(p *seedbed.Profile, inst seedbed.Instance) {
	p.VCPUs, p.Memory, p.SSHKeys, p.Metadata = inst.VCPUs, inst.Memory, inst.SSHKeys, inst.Metadata
	if len(inst.Volumes) > 0 {
		p.DiskSize = inst.Volumes[0].Size
	}
}

// remake makes an instance what it is asked to become. The names of its volumes
// are the job's own, beside those of the volumes that there are.
func (in *Intake) remake(i *seedbed.Instance, m tailored, disks []seedbed.Volume, s shape, made recipe, job seedbed.JobID) error {
	protected, held, follow := i.Protected, i.Held, i.Follow
	in.fit(i, m, s)
	i.Protected, i.Held = protected, held
	if _, said := m.given["userdata"]; !said && s.follow == m.Follow && m.Name == i.Profile {
		i.Follow = follow
	}
	i.Profile, i.Image, i.Ready, i.VCPUs, i.Memory, i.SSHKeys = m.Name, disks[0].Image, m.Ready, s.vcpus, s.memory, s.sshKeys
	i.Datasource, i.Metadata = s.datasource, s.metadata.WithDefaults(seedbed.MetadataOptions{})
	i.ReportToken = ""
	if m.Ready == seedbed.ReadyReport {
		i.ReportToken = newReportToken()
	}
	for n := range disks {
		disks[n].Name = fmt.Sprintf("%s-%d-%s", i.ID, n, job.Short())
	}
	i.Volumes = disks
	values := template.Values{Guest: in.place(*i), Params: s.rest}
	docs, err := made.fill(i.ReportToken, values)
	i.UserData, i.VendorData = docs.UserData, docs.VendorData
	return err
}

// place is an instance as templates read it.
func (in *Intake) place(i seedbed.Instance) seedbed.Guest {
	return Renderer{Region: in.serving.Renderer.Region, Zone: in.serving.Renderer.Zone}.Of(i, seedbed.Guest{})
}

// planRebuild says what a rebuild would make of an instance.
func (in *Intake) planRebuild(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Name: req.Name, Profile: req.Profile, Image: req.Image, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	if err := note(&p, seedbed.CheckInstanceName(req.Name)); err != nil || len(p.Problems) > 0 {
		return p, err
	}
	next, spec, image, script, err := in.rebuilt(ctx, req, seedbed.NewJobID())
	if err != nil {
		return p, note(&p, err)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return p, fmt.Errorf("encode the rebuild of %s: %w", req.Name, err)
	}
	p.Stages = stagesOf(&seedbed.Job{Kind: seedbed.JobRebuild, Spec: raw})
	if script != nil {
		p.Script = script.Script.Name
		p.Notes = append(p.Notes, fmt.Sprintf("script %s (revision %d) makes the disks while the guest runs on from the former ones; their names end with the start of the job's ID", p.Script, script.Script.Revision))
	}
	if c, err := in.composedRebuild(ctx, spec.Profile); err != nil {
		return p, err
	} else if c != nil {
		if err := in.missing(ctx, *c, &p); err != nil {
			return p, err
		}
	}
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory, p.Volumes, p.NICs = spec.Profile, spec.Image, next.Node, next.VCPUs, next.Memory, next.Volumes, next.NICs
	if script != nil { // as far as they are known before
		if p.Volumes, err = in.volumes(ctx, script.Storage); err != nil {
			return p, note(&p, err)
		}
	}
	for i := range p.Volumes {
		p.Volumes[i].Name = "" // of the job's ID
	}
	if image.Name != "" && image.State != seedbed.ImageActive {
		p.Problems = append(p.Problems, fmt.Sprintf("image %q is %s: wait for its import to end", image.Name, image.State))
	}
	if next.State != seedbed.InstanceRunning && next.State != seedbed.InstanceStopped {
		p.Problems = append(p.Problems, fmt.Sprintf("instance %q is %s: want one that is running or stopped to rebuild it", next.Name, next.State))
	}
	return p, nil
}
