package rest

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// planImport answers what an import would make, and the problems that would prevent it.
func (r *router) planImport(ctx context.Context, c *fiber.Ctx) (any, error) {
	if _, err := r.JobOptions(ctx, c); err != nil {
		return nil, err
	}
	var req seedbed.ImportRequest
	if err := server.Receive(c, &req); err != nil {
		return nil, err
	}
	if req.From == "" {
		req.Pool = cmp.Or(req.Pool, r.DefaultPool)
	}
	who := server.CallerOf(c)
	if err := server.ChoosesNode(c, req.Node); err != nil {
		return nil, err
	}
	name, err := who.Qualified("image", req.Name)
	if err == nil {
		req.Name = name
	} else if !errors.Is(err, seedbed.ErrInvalid) { // which is one of the problems
		return nil, err
	}
	switch {
	case req.OVA && (req.Path != "" || req.SHA256 != "" || req.Format != "" || req.Firmware != ""):
		return nil, server.Invalid("path, sha256, format and firmware apply only to a disk image: an OVA is uploaded, and states the rest itself")
	case req.From != "" && (req.OVA || req.Path != "" || req.SHA256 != "" || req.Format != "" || req.Node != "" || req.Size != 0):
		return nil, server.Invalid("from: ova, path, size, sha256, format and node are those of a file: expected none with a volume")
	case req.Generalise && req.From == "":
		return nil, server.Invalid("generalise: only an image of a volume is generalised: expected from, or false")
	case req.Size < 0:
		return nil, server.Invalid("size is %d: expected the size of the file, or none", req.Size)
	case len(req.Path) > maxPath:
		return nil, server.Invalid("path is too long: expected at most %d bytes", maxPath)
	}
	p, err := r.Intake.PlanImport(ctx, req)
	if err != nil {
		return nil, err
	}
	if most := cmp.Or(r.MaxUpload, server.DefaultMaxUpload); req.Path == "" && req.From == "" && req.Size > most {
		p.Problems = append(p.Problems, "the file has "+req.Size.Human()+", and at most "+most.Human()+" may be uploaded (storage.max_upload)")
	}
	if req.OVA && len(p.Problems) == 0 {
		if p.Problems, err = r.ovaProblems(ctx, req); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// ovaProblems returns the problems that only an OVA import has.
func (r *router) ovaProblems(ctx context.Context, req seedbed.ImportRequest) ([]string, error) {
	_, err := r.OVAPrecondition(ctx, req.Name, req.Pool, req.Size)
	if errors.Is(err, seedbed.ErrExists) || errors.Is(err, seedbed.ErrInvalid) {
		return []string{err.Error()}, nil
	}
	return []string{}, err
}

func (r *router) ovaImages() objects[seedbed.OVA, wire.OVA] {
	return objects[seedbed.OVA, wire.OVA]{
		r: r, kind: seedbed.PublishedOVA, list: r.Store.OVAs, show: shownOVA, publish: r.Store.PublishOVA,
		of: func(o *seedbed.OVA) (string, *seedbed.ObjectMeta) { return o.Name, o.Meta() },
	}
}

func shownOVA(o seedbed.OVA) wire.OVA {
	return wire.OVA{Name: o.Name, Volumes: o.Volumes, Stored: wire.Stored(o.ObjectMeta)}
}

// uploadOVA receives an OVA, and starts its import.
func (r *router) uploadOVA(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := server.NameOf(c, "OVA image")
	if err != nil {
		return seedbed.Receipt{}, err
	}
	spec := seedbed.UploadSpec{Pool: strings.Clone(cmp.Or(c.Query("pool"), r.DefaultPool))}
	if spec.Node, err = server.NodeQuery(c); err == nil {
		err = server.ChoosesNode(c, spec.Node)
	}
	if err == nil {
		spec.SHA256, err = server.WantedDigest(c, strings.ToLower(c.Query("sha256")))
	}
	if !server.IsForm(c) {
		spec.Size = seedbed.Bytes(max(0, c.Request().Header.ContentLength()))
	}
	server.NoteUpload(c, map[string]any{"name": n, "pool": spec.Pool, "node": spec.Node, "sha256": spec.SHA256})
	return r.TakeOVA(ctx, c, n, spec, o, err)
}

// removeOVA starts a job that removes an OVA image with its disks, its system template and its
// profile.
func (r *router) removeOVA(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := r.Owned(ctx, c, seedbed.PublishedOVA)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.OVAs.RemoveOVA(ctx, n, o)
}

// uploadVolume receives a disk image, and starts the job that makes a volume of it.
func (r *router) uploadVolume(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (receipt seedbed.Receipt, err error) {
	req := seedbed.Request{Action: seedbed.DoVolumeAdd, Project: server.CallerOf(c).Project, JobOptions: o}
	if req.Name, err = diskNamed(c); err != nil {
		return receipt, err
	}
	add := &req.Volume.Add
	spec, err := r.uploadSpec(c)
	if err != nil {
		return receipt, err
	}
	spec.Disk, spec.Format = true, strings.Clone(c.Query("format"))
	if size := c.Query("size"); size != "" {
		if add.Size, err = seedbed.ParseBytes(strings.Clone(size)); err != nil {
			return receipt, err
		}
	}
	if f := spec.Format; f != "" && f != "raw" && f != "qcow2" {
		return receipt, server.Invalid("format %q: expected qcow2 or raw, or none for either", seedbed.Clip(f))
	}
	server.NoteUpload(c, map[string]any{"name": req.Name, "pool": spec.Pool, "node": spec.Node, "sha256": spec.SHA256, "format": spec.Format,
		"size": add.Size})
	up, err := r.received(ctx, c, spec, func() error { return r.freeVolume(ctx, req.Project, req.Name) })
	if err != nil {
		return receipt, err
	}
	add.Upload = &seedbed.VolumeUpload{ID: up.ID, Format: spec.Format}
	add.Name, add.Pool, add.Node, add.Size = req.Name, up.Pool, up.Node, cmp.Or(add.Size, up.Disk)
	if add.Size < up.Disk {
		return receipt, r.Unneeded(ctx, up, server.Invalid(
			"size is %s, and the disk in the file has %s: expected at least that", add.Size, up.Disk))
	}
	if receipt, err = r.Intake.Submit(ctx, req, nil); err != nil {
		return receipt, r.Unneeded(ctx, up, err)
	}
	return receipt, nil
}

// uploadSpec returns what the query and the header of an upload say of the pool, the node and the digest of the file.
func (r *router) uploadSpec(c *fiber.Ctx) (spec seedbed.UploadSpec, err error) {
	if spec.SHA256, err = server.WantedDigest(c, strings.ToLower(c.Query("sha256"))); err != nil {
		return spec, err
	}
	spec.Pool = strings.Clone(cmp.Or(c.Query("pool"), r.DefaultPool))
	if err := seedbed.CheckName("pool", spec.Pool); err != nil {
		return spec, err
	}
	if spec.Node, err = server.NodeQuery(c); err == nil {
		err = server.ChoosesNode(c, spec.Node)
	}
	return spec, err
}

// received passes the file of a request to a worker, unless free returns why it is not wanted, which is asked before the file is sent.
func (r *router) received(ctx context.Context, c *fiber.Ctx, spec seedbed.UploadSpec, free func() error) (up seedbed.Upload, err error) {
	body, err := r.Incoming(ctx, c, server.MaxFrame)
	if body != nil {
		defer body.Close()
	}
	if err == nil {
		err = free()
	}
	if err == nil {
		up, err = r.TakeIn(ctx, c, body, spec)
	}
	if err != nil && body != nil {
		body.Linger(server.UploadLinger)
	}
	return up, err
}

// freeVolume refuses a volume whose name is taken, before the file is sent.
func (r *router) freeVolume(ctx context.Context, project, name string) error {
	v, err := r.Store.ProjectVolume(ctx, project, name)
	if errors.Is(err, seedbed.ErrNotFound) || err == nil && v.ID == "" {
		return nil
	}
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrExists, "volume %q exists already: choose another name (seedbed volume list)", name)
	}
	return err
}
