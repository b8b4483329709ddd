package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"seedbed"
	"seedbed/provision/record"
	"seedbed/provision/template"
)

// rebuild accepts a request to give an instance new disks. Unless the request says otherwise, the
// instance keeps its size, keys and metadata options, and gets the documents and disks of its
// profile's current version. With another profile it gets all of these from that profile. Its name,
// ID, NICs and tags never change.
func (in *Intake) rebuild(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	job := seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRebuild, State: seedbed.JobQueued, JobOptions: req.JobOptions}
	made, err := in.rebuilt(ctx, req, job.ID)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job.Project, job.Subject, job.Instance, job.Node = made.inst.Project, made.inst.Name, made.inst.ID, made.inst.Node
	if job.Spec, err = json.Marshal(made.spec); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the rebuild of %s: %w", made.inst.Name, err)
	}
	return in.store.Accept(ctx,
		seedbed.Acceptance{Job: job, Delivery: delivery, Rebuild: &made.inst, Script: made.script, Confirm: req.Confirm})
}

// rebuilt is what a rebuild makes of an instance.
type rebuilt struct {
	tailored
	inst seedbed.Instance
	spec seedbed.RebuildSpec
	// script is what the job needs to run the profile's script, which makes the disks; nil if there
	// is no script or it is skipped.
	script *seedbed.ScriptRun
}

// rebuilt makes what the instance is to become. It writes nothing.
func (in *Intake) rebuilt(ctx context.Context, req seedbed.Request, job seedbed.JobID) (made rebuilt, err error) {
	power, given, err := powerSpec(req.Params)
	if err != nil {
		return made, err
	}
	if err := rebuildable(given); err != nil {
		return made, err
	}
	now, err := in.store.InstanceByName(ctx, seedbed.Named(req.Project, req.Name))
	if err != nil {
		return made, err
	}
	if err := notExpired(now); err != nil {
		return made, err
	}
	m, stored, err := in.tailorAgain(ctx, req, now, given)
	if err != nil {
		return made, err
	}
	s, err := shapeOf(m.Profile, m.given)
	if err != nil {
		return made, err
	}
	if err := cmp.Or(in.scriptable(ctx, m, now.NICs), keepsWay(now, &m, &s, given)); err != nil {
		return made, err
	}
	if err := announced(now, s.datasource); err != nil {
		return made, err
	}
	image, err := in.image(ctx, m.Profile, s)
	if err != nil {
		return made, err
	}
	docs, err := in.recipeOf(m, &s, stored)
	if err == nil {
		docs.only6, err = in.only6(ctx, now.NICs)
	}
	if err != nil {
		return made, err
	}
	disks, err := in.disks(ctx, m, image, s.disk, "")
	if err != nil {
		return made, err
	}
	_, sized := given["disk"] // which is the size of the first disk
	for i := range min(len(disks), len(now.Volumes)) {
		if m.Name == now.Profile && (i > 0 || !sized) { // keep the size of a disk that has grown
			disks[i].Size = max(disks[i].Size, now.Volumes[i].Size)
		}
	}
	var skipped string
	if made.script, skipped, err = in.scriptRun(ctx, m, s, image); err != nil {
		return made, err
	}
	if made.script == nil && len(m.asked) > 0 {
		return made, seedbed.Errorf(seedbed.ErrInvalid,
			"the script of profile %q is skipped, and the profile declares no params: expected none except ready", m.Name)
	}
	if made.script == nil && len(disks) == 0 {
		return made, seedbed.Errorf(seedbed.ErrConflict, "instance %q cannot be rebuilt by the profile %q, which gives it no disk", now.Name,
			m.Name)
	}
	needs, err := in.demands(ctx, now, m.parts.System, disks, "")
	if err == nil {
		needs.VCPUs, needs.Memory = s.vcpus, s.memory
		err = unplaced(ctx, in.placer.Fits(ctx, now.Node, needs, useOf(now)))
	}
	if err != nil {
		return made, err
	}
	made.tailored, made.inst = m, now
	if made.script != nil {
		disks = nil // the script makes them
	}
	err = in.remake(&made.inst, m, disks, s, docs, job)
	made.spec = seedbed.RebuildSpec{PowerSpec: power, Profile: m.Name, Image: made.inst.Image, Own: req.Profile == "",
		Scripted: made.script != nil, Skipped: skipped}
	return made, err
}

// announced refuses the EC2 datasource for an instance whose UUID does not announce it. A rebuild
// keeps the UUID, and without the prefix no release of cloud-init finds that datasource.
func announced(now seedbed.Instance, d seedbed.Datasource) error {
	if d != seedbed.DatasourceEC2 || now.ID.AnnouncesEC2() {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "datasource ec2: instance %q has the UUID %s, which does not begin with ec2, and a rebuild "+
		"keeps it: expected param datasource openstack, nocloud or none, or a new instance", now.Name, now.ID)
}

// rebuildable refuses parameters that a rebuild does not change.
func rebuildable(given map[string]any) error {
	if _, ok := given["cdrom"]; ok {
		return seedbed.Errorf(seedbed.ErrInvalid, "param cdrom: a rebuild keeps what is in the CD-ROM drive (seedbed vm cdrom)")
	}
	if _, ok := given["placement_group"]; ok {
		return seedbed.Errorf(seedbed.ErrInvalid, "param placement_group: a rebuild keeps the placement group (seedbed vm set --placement-group)")
	}
	for _, once := range []string{"hold", "protected"} {
		if _, ok := given[once]; ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "param %s: a rebuild leaves that as it is (seedbed vm protect, stop and start)", once)
		}
	}
	if _, ok := given["tags"]; ok {
		return seedbed.Errorf(seedbed.ErrInvalid, "param tags: a rebuild keeps the instance's tags: change them with seedbed vm tag")
	}
	return nil
}

// tailorAgain returns the profile that a rebuild uses, resolved for the instance, and those of the
// instance's parameters that are kept. If it is the instance's own profile, it asks for what the
// instance has.
func (in *Intake) tailorAgain(ctx context.Context, req seedbed.Request, now seedbed.Instance, given map[string]any,
) (m tailored, stored map[string]any, err error) {
	var profile seedbed.Profile
	switch {
	case req.Profile != "":
		profile, err = in.profile(ctx, now.Project, req.Profile)
	case now.Profile != "":
		profile, err = in.profile(ctx, now.Project, seedbed.Explicit(now.Profile))
	default:
		profile, given, err = in.relaunched(ctx, now, req.Image, given)
	}
	if err != nil {
		return m, nil, err
	}
	own := profile.Name == now.Profile
	if profile.Script != "" && req.Image != "" {
		return m, nil, seedbed.Errorf(seedbed.ErrInvalid,
			"image: the profile %q and its script define the disks: expected no image, or a profile without a script", profile.Name)
	}
	if own { // the values that its templates read are kept, unless the request sets them
		stored = now.Params
		if profile.Script != "" {
			profile.Ready = now.Ready
		}
	}
	m, err = in.tailor(ctx, profile, now.FullName(), over(declaredOf(profile.Params, stored), given), nil)
	if err != nil {
		return m, nil, err
	}
	if _, _, err := needsScript(m); err != nil {
		return m, nil, err
	}
	if req.Image == "" {
		err = in.look(ctx, &m, seedbed.PublishedImage, now.Project, &m.Image)
	} else {
		m.Image, err = in.uses(ctx, seedbed.PublishedImage, now.Project, req.Image)
	}
	if err != nil {
		return m, nil, err
	}
	m.Tags = now.Tags
	var size seedbed.Bytes
	if m.Image != "" {
		image, err := in.store.Image(ctx, m.Image)
		if errors.Is(err, seedbed.ErrNotFound) {
			err = seedbed.Errorf(seedbed.ErrInvalid, "image %q does not exist", m.Image)
		}
		if err != nil {
			return m, nil, err
		}
		size = image.Size
	}
	if own {
		keep(&m.Profile, now, size)
	}
	return m, stored, nil
}

// declaredOf returns those of an instance's parameters that are declared now.
func declaredOf(declared []seedbed.Param, stored map[string]any) map[string]any {
	kept := map[string]any{}
	for _, param := range declared {
		if v, ok := stored[param.Name]; ok {
			kept[param.Name] = v
		}
	}
	return kept
}

// over returns params overridden by others.
func over(params, others map[string]any) map[string]any {
	all := maps.Clone(params)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, others)
	return all
}

// keep makes a profile ask for what an instance of it has. image is the size of its image, 0
// without one.
func keep(p *seedbed.Profile, inst seedbed.Instance, image seedbed.Bytes) {
	p.VCPUs, p.Memory, p.SSHKeys, p.Metadata = inst.VCPUs, inst.Memory, inst.SSHKeys, inst.Metadata
	p.Datasource, p.BootFrom = inst.Datasource, cmp.Or(inst.System.BootFrom, seedbed.BootDisk)
	if p.Image == "" || p.Script != "" {
		return
	}
	if len(inst.Volumes) > 0 {
		p.DiskSize = inst.Volumes[0].Size
	}
	p.DiskSize = max(p.DiskSize, image)
}

// remake turns an instance into what the request asks for. The names of its volumes contain the
// job's ID, so they differ from those of the existing volumes.
func (in *Intake) remake(i *seedbed.Instance, m tailored, disks []seedbed.Volume, s shape, made recipe, job seedbed.JobID) error {
	protected, held, follow, had, was := i.Protected, i.Held, i.Follow, i.Hardware(), i.System
	in.fit(i, m, s)
	if m.Name == i.Profile { // what the request for it said, and what seedbed vm set has changed
		if _, said := m.given["firmware"]; !said {
			i.System.Firmware = was.Firmware
		}
		if _, said := m.given["tpm"]; !said {
			i.System.TPM = was.TPM
		}
		had.BootFrom = i.System.BootFrom
		if _, said := m.given["restart"]; said {
			had.Restart, had.Autostart = i.System.Restart, had.Autostart && i.System.Restart == ""
		}
		if _, said := m.given["restart_priority"]; said {
			had.Priority = i.System.Priority
		}
		*i = i.WithHardware(had)
	}
	i.Protected, i.Held = protected, held
	if _, said := m.given["userdata"]; !said && s.follow == m.Follow && m.Name == i.Profile {
		i.Follow = follow
	}
	i.Profile, i.Image, i.Ready, i.VCPUs, i.Memory, i.SSHKeys = m.Name, "", m.Ready, s.vcpus, s.memory, s.sshKeys
	i.Datasource, i.Metadata = s.datasource, s.metadata.WithDefaults(seedbed.MetadataOptions{})
	i.ReportToken = newReportToken()
	for n := range disks {
		disks[n].Name = fmt.Sprintf("%s-%d-%s", i.ID, n, job.Short())
	}
	if i.Volumes = append([]seedbed.Volume{}, disks...); len(disks) > 0 {
		i.Image = disks[0].Image
	}
	values := template.Values{Guest: in.place(*i), Params: s.rest}
	docs, err := made.fill(i.ReportToken, values)
	if i.UserData, i.VendorData = docs.UserData, docs.VendorData; m.Script != "" && i.UserData == nil {
		i.UserData = []byte{}
	}
	return err
}

// place returns an instance as templates read it.
func (in *Intake) place(i seedbed.Instance) seedbed.Guest {
	return record.Renderer{Region: in.serving.Renderer.Region, Zone: in.serving.Renderer.Zone}.Of(i, seedbed.Guest{})
}

// planRebuild returns what a rebuild would make of an instance.
func (in *Intake) planRebuild(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: req.Project, Name: req.Name, Profile: req.Profile, Image: req.Image,
		Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	if err := note(&p, seedbed.CheckInstanceName(req.Name)); err != nil || len(p.Problems) > 0 {
		return p, err
	}
	made, err := in.rebuilt(ctx, req, seedbed.NewJobID())
	if err != nil {
		return p, note(&p, err)
	}
	raw, err := json.Marshal(made.spec)
	if err != nil {
		return p, fmt.Errorf("encode the rebuild of %s: %w", req.Name, err)
	}
	p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobRebuild, Spec: raw})
	if s := made.script; s != nil {
		p.Script = s.Script.Name
		p.Notes = append(p.Notes, fmt.Sprintf("script %s (revision %d) makes the disks while the guest runs on from the former ones; "+
			"their names end with the start of the job's ID", p.Script, s.Script.Revision))
	}
	if made.spec.Skipped != "" {
		p.Notes = append(p.Notes, made.spec.Skipped)
	}
	if err := in.missing(ctx, made.tailored, &p); err != nil {
		return p, err
	}
	next := made.inst
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory, p.Ready = made.Name, made.spec.Image, next.Node, next.VCPUs, next.Memory, next.Ready
	p.Volumes, p.NICs = next.Volumes, next.NICs
	if made.script != nil { // as far as they are known in advance
		if p.Volumes, err = in.volumes(ctx, made.script.Storage, made.script.OVA); err != nil {
			return p, note(&p, err)
		}
	}
	for i := range p.Volumes {
		p.Volumes[i].Name = "" // it contains the job's ID
	}
	if next.State != seedbed.InstanceRunning && next.State != seedbed.InstanceStopped {
		p.Problems = append(p.Problems,
			fmt.Sprintf("instance %q is %s: it must be running or stopped to be rebuilt", next.Name, next.State))
	}
	return p, nil
}
