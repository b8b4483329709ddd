package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"seedbed"
)

// imageFormats are the formats that an import may name for its file; the empty one accepts any.
var imageFormats = []string{"", "qcow2", "raw", "vmdk", "vdi", "iso", "ova"}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Import accepts a request to make the image name in pool from a file on the worker's host, from one that
// was uploaded to the pool, or from the volume that spec.From names (sourceOf), in whose pool the image
// then is. Errors: seedbed.ErrInvalid for a wrong name, path or digest, or a file that the worker could
// not open, ErrExists for a name in use, and for a volume those of sourceOf.
func (in *Intake) Import(ctx context.Context, name, pool string, spec seedbed.ImportSpec,
	o seedbed.JobOptions) (seedbed.Receipt, error) {
	if spec.From != nil {
		return in.importVolume(ctx, name, pool, spec, o)
	}
	spec, err := checkImport(name, pool, spec)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if err := hostFile(ctx, spec); err != nil {
		return seedbed.Receipt{}, err
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode import of %s: %w", name, err)
	}
	node, err := in.placer.Holder(ctx, pool, spec.Node)
	if err != nil {
		return seedbed.Receipt{}, unheld(ctx, pool, err)
	}
	if err := in.importable(ctx, node, name, pool, spec.Path); err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImport, State: seedbed.JobQueued,
			Project: seedbed.ProjectOf(name), Subject: name, Spec: raw, Node: node, Pool: pool, JobOptions: o},
		Image: &seedbed.Image{Name: name, Pool: pool, State: seedbed.ImageImporting, Source: cmp.Or(spec.Path, "upload"), SHA256: spec.SHA256,
			Firmware: spec.Firmware},
	})
}

// hostFile refuses to a tenant what belongs to the installation: to read a file of a host, and to choose a
// node. The node of an uploaded file is the one that has it.
func hostFile(ctx context.Context, spec seedbed.ImportSpec) error {
	switch {
	case !seedbed.IsTenant(ctx):
		return nil
	case spec.Path != "":
		return seedbed.Errorf(seedbed.ErrForbidden, "a file of a host is imported from the default project only: upload the image")
	case spec.Node != "" && spec.Upload == "":
		return seedbed.Errorf(seedbed.ErrForbidden, "a node is chosen from the default project only: expected none")
	}
	return nil
}

// importable refuses the import of a file that its node's worker could not open. If the worker does
// not say, as one of an older release, its job finds out. An empty path is that of an uploaded file.
func (in *Intake) importable(ctx context.Context, node, name, pool, path string) error {
	if in.serving.ImportProblem == nil || path == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, strangerTime)
	defer cancel()
	problem, err := in.serving.ImportProblem(ctx, node, seedbed.ImageSpec{Pool: pool, Name: name, Path: path})
	if err == nil && problem != "" {
		return seedbed.Errorf(seedbed.ErrInvalid, "node %s: %s", node, problem)
	}
	return nil
}

// checkImport refuses an import that is not possible, and returns it in the form in which it is
// recorded.
func checkImport(name, pool string, spec seedbed.ImportSpec) (seedbed.ImportSpec, error) {
	if err := seedbed.CheckQualifiedName("image", name); err != nil {
		return spec, err
	}
	if err := seedbed.CheckName("pool", pool); err != nil {
		return spec, err
	}
	if spec.Upload == "" && (!filepath.IsAbs(spec.Path) || filepath.Clean(spec.Path) != spec.Path || len(spec.Path) > 4096 ||
		strings.ContainsRune(spec.Path, 0)) {
		return spec, seedbed.Errorf(seedbed.ErrInvalid,
			"path %q is not usable: expected the clean absolute path of a disk image on the worker's host", seedbed.Clip(spec.Path))
	}
	spec.SHA256 = strings.ToLower(spec.SHA256)
	if spec.SHA256 != "" && !sha256Form.MatchString(spec.SHA256) {
		return spec, seedbed.Errorf(seedbed.ErrInvalid, "sha256 is not a digest: expected 64 hexadecimal digits, or none")
	}
	if !slices.Contains(imageFormats, spec.Format) {
		return spec, seedbed.Errorf(seedbed.ErrInvalid, "format %q is unknown: expected none%s", seedbed.Clip(spec.Format),
			strings.Join(imageFormats, ", "))
	}
	var err error
	spec.Firmware, err = seedbed.ParseFirmware(string(spec.Firmware))
	return spec, err
}

// importVolume is Import for a volume.
func (in *Intake) importVolume(
	ctx context.Context, name, pool string, spec seedbed.ImportSpec, o seedbed.JobOptions,
) (seedbed.Receipt, error) {
	a, err := in.imageOfVolume(ctx, name, pool, spec)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	a.Job.JobOptions = o
	if a.Warnings, err = in.room(ctx, a.Job.Node, map[string]seedbed.Bytes{a.Job.Pool: a.Image.Size}, false); err != nil {
		return seedbed.Receipt{}, err
	}
	a.Image.Size = 0 // known once it is made
	return in.store.Accept(ctx, a)
}

// imageOfVolume returns the acceptance of a job that makes an image from a volume, with the volume's size as the image's.
func (in *Intake) imageOfVolume(ctx context.Context, name, pool string, spec seedbed.ImportSpec) (a seedbed.Acceptance, err error) {
	if err := seedbed.CheckQualifiedName("image", name); err != nil {
		return a, err
	}
	project := seedbed.ProjectOf(name)
	from, err := in.sourceOf(ctx, project, spec.From.Name)
	if err == nil {
		err = from.CheckCopy(cmp.Or(pool, from.Pool), 0)
	}
	if err != nil {
		return a, err
	}
	if spec.Firmware, err = seedbed.ParseFirmware(string(spec.Firmware)); err != nil {
		return a, err
	}
	if image, err := in.store.Image(ctx, from.inst.Image); err == nil && from.Index == 0 { // which its instance may have outlived
		spec.Firmware = cmp.Or(spec.Firmware, image.Firmware)
	}
	spec.From, spec.Size = from.asSource(), from.Size
	if spec.Generalised != nil {
		id := seedbed.NewVolumeID()
		spec.Generalised = &seedbed.VolumeSource{Name: "the copy of " + from.Name, Volume: id, Owner: seedbed.InstanceID(id)}
	}
	node, err := in.placer.Holder(ctx, from.Pool, from.Node)
	if err != nil {
		return a, unheld(ctx, from.Pool, err)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return a, fmt.Errorf("encode import of %s: %w", name, err)
	}
	return seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImport, State: seedbed.JobQueued, Project: project, Subject: name, Spec: raw,
			Node: node, Pool: from.Pool},
		Image: &seedbed.Image{Name: name, Pool: from.Pool, State: seedbed.ImageImporting, Source: "volume " + from.Name, Size: from.Size,
			Firmware: spec.Firmware},
	}, nil
}
