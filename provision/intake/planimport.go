package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
)

// PlanImport returns what an import of a disk image, or of an OVA, would make as things are now,
// and why it would not be accepted. It writes nothing. The file is opened, but not read. It returns
// an error only if the store fails.
func (in *Intake) PlanImport(ctx context.Context, req seedbed.ImportRequest) (seedbed.ImportPlan, error) {
	p := seedbed.ImportPlan{Name: req.Name, Pool: req.Pool, Size: req.Size, Problems: []string{}}
	if req.From != "" {
		return in.planImageOf(ctx, req, p)
	}
	var checked, taken, forbidden error
	image := req.Name
	if req.OVA {
		p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobOVA})
		checked = seedbed.CheckOVAName(req.Name)
		image = seedbed.OVAImage(req.Name, seedbed.DiskName(0))
		p.Notes = append(p.Notes, fmt.Sprintf(
			"its disks become the images %s and so on, and a system template and a profile named %s are created", image,
			req.Name))
	} else {
		p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobImport})
		spec := seedbed.ImportSpec{Path: req.Path, SHA256: req.SHA256, Format: req.Format, Firmware: req.Firmware}
		if req.Path == "" {
			spec.Upload = "to come"
		}
		_, checked = checkImport(req.Name, req.Pool, spec)
		forbidden = hostFile(ctx, spec)
	}
	if checked == nil {
		taken = in.imageTaken(ctx, image)
	}
	node, nowhere := in.placer.Holder(ctx, req.Pool, req.Node)
	nowhere = unheld(ctx, req.Pool, nowhere)
	var absent error
	if checked == nil && forbidden == nil && nowhere == nil {
		absent = in.importable(ctx, node, req.Name, req.Pool, req.Path)
	}
	for _, err := range []error{checked, forbidden, taken, nowhere, absent} {
		if e, ok := errors.AsType[*seedbed.Error](err); ok && e.Kind != seedbed.ErrUnavailable {
			p.Problems = append(p.Problems, e.Msg)
		} else if err != nil {
			return p, err
		}
	}
	if node != "" && req.Path != "" && !seedbed.IsTenant(ctx) {
		p.Notes = append(p.Notes, fmt.Sprintf("the file %s is looked at when the job runs, on node %s", seedbed.Clip(req.Path), node))
	}
	return p, in.importRoom(ctx, &p, req, node)
}

// importRoom sets in the plan on which node an image would be made, and what room there is.
func (in *Intake) importRoom(ctx context.Context, p *seedbed.ImportPlan, req seedbed.ImportRequest, node string) error {
	if node == "" || seedbed.IsTenant(ctx) { // who may not learn of nodes and their room
		return nil
	}
	p.Node = node
	info, known, err := in.placer.Room(ctx, node, req.Pool)
	if err != nil || !known {
		return err
	}
	p.Free = info.Free
	switch {
	case info.Problem != "":
		p.Notes = append(p.Notes, fmt.Sprintf("pool %s of node %s is unavailable: %s", req.Pool, node, info.Problem))
	case info.Free < lowRoom:
		p.Notes = append(p.Notes, fmt.Sprintf("pool %s of node %s has only %s free of %s", req.Pool, node, info.Free.Human(), info.Size.Human()))
	case info.Free < req.Size:
		p.Notes = append(p.Notes, fmt.Sprintf("it has %s, and pool %s %s free: it may not fit", req.Size.Human(), req.Pool,
			info.Free.Human()))
	}
	return nil
}

// planImageOf is PlanImport for an image that is made from a volume.
func (in *Intake) planImageOf(ctx context.Context, req seedbed.ImportRequest, p seedbed.ImportPlan) (seedbed.ImportPlan, error) {
	spec := seedbed.ImportSpec{Firmware: req.Firmware, From: &seedbed.VolumeSource{Name: req.From}}
	if req.Generalise {
		spec.Generalised = &seedbed.VolumeSource{}
	}
	a, err := in.imageOfVolume(ctx, req.Name, req.Pool, spec)
	if err == nil {
		p.Stages, p.Pool, p.Size = in.stages(&a.Job), a.Job.Pool, a.Image.Size
		req.Pool, req.Size = p.Pool, p.Size
		err = in.imageTaken(ctx, req.Name)
	} else {
		raw, _ := json.Marshal(spec)
		p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobImport, Spec: raw})
	}
	if e, ok := errors.AsType[*seedbed.Error](err); ok && e.Kind != seedbed.ErrUnavailable {
		p.Problems = append(p.Problems, e.Msg)
	} else if err != nil {
		return p, err
	}
	return p, in.importRoom(ctx, &p, req, a.Job.Node)
}

// imageTaken returns the refusal of an image name that is in use.
func (in *Intake) imageTaken(ctx context.Context, name string) error {
	image, err := in.store.Image(ctx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrExists, "image %q exists already: it is %s", image.Name, image.State)
	}
	return err
}
