package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/template"
)

// rebuild asks for an instance to be given fresh disks. What is not asked for
// otherwise it keeps: its size, keys and metadata options. Its documents and
// image are those of its profile as that is now. With another profile all of
// that is the other's. Its name, ID, NICs and tags stay in any case.
func (in *Intake) rebuild(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	job := seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRebuild, State: seedbed.JobQueued}
	next, spec, _, err := in.rebuilt(ctx, req, job.ID)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job.Subject, job.Instance, job.Node = next.Name, next.ID, next.Node
	if job.Spec, err = json.Marshal(spec); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the rebuild of %s: %w", next.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery, Rebuild: &next})
}

// rebuilt is what the instance becomes, with the image of its disk.
func (in *Intake) rebuilt(ctx context.Context, req seedbed.Request, job seedbed.JobID) (next seedbed.Instance, spec seedbed.RebuildSpec, image seedbed.Image, err error) {
	refused := func(err error) (seedbed.Instance, seedbed.RebuildSpec, seedbed.Image, error) {
		return next, spec, image, err
	}
	power, given, err := powerSpec(req.Params)
	if err != nil {
		return refused(err)
	}
	if _, ok := given["tags"]; ok {
		return refused(seedbed.Errorf(seedbed.ErrInvalid, "param tags: a rebuild keeps the instance's tags: want none here (seedbed vm tag changes them)"))
	}
	if next, err = in.instance(ctx, req.Name); err != nil {
		return refused(err)
	}
	own := req.Profile == "" || req.Profile == next.Profile
	profile, err := in.profile(ctx, cmp.Or(req.Profile, next.Profile))
	if err != nil {
		return refused(err)
	}
	if profile.Image = cmp.Or(req.Image, profile.Image); req.Image != "" {
		if err := seedbed.CheckName("image", req.Image); err != nil {
			return refused(err)
		}
	}
	if own {
		keep(&profile, next)
	}
	image, err = in.store.Image(ctx, profile.Image)
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "image %q does not exist", profile.Image)
	}
	if err != nil {
		return refused(err)
	}
	if own {
		profile.DiskSize = max(profile.DiskSize, image.Size)
	}
	profile.Tags = next.Tags
	s, err := shapeOf(profile, given)
	if err != nil {
		return refused(err)
	}
	if image, err = in.image(ctx, profile, s); err != nil {
		return refused(err)
	}
	made, err := in.sourcesOf(profile.Ready, s).read()
	if err == nil {
		err = s.checkRest(made)
	}
	if err != nil {
		return refused(err)
	}
	spec = seedbed.RebuildSpec{PowerSpec: power, Profile: profile.Name, Image: image.Name, Own: req.Profile == ""}
	err = in.remake(&next, profile, image, s, made, job)
	return next, spec, image, err
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
func (in *Intake) remake(i *seedbed.Instance, p seedbed.Profile, image seedbed.Image, s shape, made recipe, job seedbed.JobID) error {
	i.Profile, i.Image, i.Ready, i.VCPUs, i.Memory, i.SSHKeys = p.Name, image.Name, p.Ready, s.vcpus, s.memory, s.sshKeys
	i.Datasource, i.Metadata = s.datasource, s.metadata.WithDefaults(seedbed.MetadataOptions{})
	i.ReportToken = ""
	if p.Ready == seedbed.ReadyReport {
		i.ReportToken = newReportToken()
	}
	i.Volumes = []seedbed.Volume{{
		Name: fmt.Sprintf("%s-0-%s", i.ID, job.Short()), Pool: image.Pool, Size: cmp.Or(s.disk, image.Size), Image: image.Name,
	}}
	values := template.Values{Guest: Renderer{Region: in.serving.Renderer.Region, Zone: in.serving.Renderer.Zone}.Of(*i, seedbed.Guest{}), Params: s.rest}
	docs, err := made.fill(i.ReportToken, values)
	i.UserData, i.VendorData = docs.UserData, docs.VendorData
	return err
}

// planRebuild says what a rebuild would make of an instance.
func (in *Intake) planRebuild(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Name: req.Name, Profile: req.Profile, Image: req.Image, Node: in.node, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	if err := note(&p, seedbed.CheckInstanceName(req.Name)); err != nil || len(p.Problems) > 0 {
		return p, err
	}
	next, spec, image, err := in.rebuilt(ctx, req, seedbed.NewJobID())
	if err != nil {
		return p, note(&p, err)
	}
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory, p.Volumes, p.NICs = spec.Profile, spec.Image, next.Node, next.VCPUs, next.Memory, next.Volumes, next.NICs
	for i := range p.Volumes {
		p.Volumes[i].Name = "" // of the job's ID
	}
	if image.State != seedbed.ImageActive {
		p.Problems = append(p.Problems, fmt.Sprintf("image %q is %s: wait for its import to end", image.Name, image.State))
	}
	if next.State != seedbed.InstanceRunning && next.State != seedbed.InstanceStopped {
		p.Problems = append(p.Problems, fmt.Sprintf("instance %q is %s: want one that is running or stopped to rebuild it", next.Name, next.State))
	}
	return p, nil
}
