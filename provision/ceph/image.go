//go:build ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/command"
	"seedbed/provision/image"
)

// ImportImage implements worker.ImageStore. A volume is copied from a snapshot of it. Another file that was not uploaded is frozen, or
// copied to the scratch directory first, so that the file that is checked is the file that is used (image.Source). Then qemu-img, in a
// process that can be killed, writes the disk into an RBD image without its zeros. Progress counts the bytes of a copied file twice, once
// for each half of the work.
func (p *Pool) ImportImage(
	ctx context.Context,
	job seedbed.JobID,
	spec seedbed.ImageSpec,
	progress func(seedbed.Progress),
) (seedbed.ImageInfo, error) {
	if err := image.CheckSpec(spec); err != nil {
		return seedbed.ImageInfo{}, err
	}
	if progress == nil {
		progress = func(seedbed.Progress) {}
	}
	have, err := call(ctx, p, "import image "+spec.Name, rbdOf(roleImage, spec.Name), func(ctx context.Context, s *session) (*tag, error) {
		return p.lookOwn(ctx, s, job, spec.Name)
	})
	if err != nil || have != nil {
		if have != nil && spec.From != "" {
			err = p.dropPoint(ctx, job, spec.CopySource)
		}
		return have.ImageInfo(p.cfg.Name), err
	}
	if spec.From != "" {
		t, err := p.imageOf(ctx, job, spec, progress)
		if err != nil {
			err = fmt.Errorf("make image %s of volume %s: %w", spec.Name, spec.From, err)
		}
		return t.ImageInfo(p.cfg.Name), err
	}
	src, err := image.OpenSource(spec, p.spool, p.cfg.Imports)
	if err != nil {
		return seedbed.ImageInfo{}, err
	}
	defer src.Close()
	t, err := p.importFile(ctx, src, spec, job, progress)
	return t.ImageInfo(p.cfg.Name), src.Failed(err)
}

// CheckImport implements worker.ImageStore.
func (p *Pool) CheckImport(_ context.Context, spec seedbed.ImageSpec) error {
	return image.CheckSource(spec, p.cfg.Imports)
}

// lookOwn finds the image of that name. It returns nil if there is none, and ErrConflict if it was
// imported by another job or is being removed.
func (p *Pool) lookOwn(ctx context.Context, s *session, job seedbed.JobID, name string) (*tag, error) {
	have, err := p.look(ctx, s, roleImage, name, job)
	if have == nil || err != nil {
		return nil, err
	}
	if err := have.CheckImporter(p.cfg.Name, job); err != nil {
		return nil, err
	}
	return have, nil
}

// ImageDisk implements worker.ImageStore.
func (p *Pool) ImageDisk(ctx context.Context, name string) (seedbed.Disk, error) {
	if err := seedbed.CheckQualifiedName("image", name); err != nil {
		return seedbed.Disk{}, err
	}
	return call(ctx, p, "look at image "+name, rbdOf(roleImage, name), func(ctx context.Context, s *session) (seedbed.Disk, error) {
		have, err := p.look(ctx, s, roleImage, name, "")
		if have == nil && err == nil {
			err = p.noImage(name)
		}
		if err != nil {
			return seedbed.Disk{}, err
		}
		return p.disk(s, have), nil
	})
}

// importFile makes the image. An ErrInvalid that it returns describes the file.
func (p *Pool) importFile(
	ctx context.Context,
	src *image.Source,
	spec seedbed.ImageSpec,
	job seedbed.JobID,
	progress func(seedbed.Progress),
) (*tag, error) {
	ctx, from, err := p.private(ctx, src, progress)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	made, err := p.convert(ctx, from, tag{Role: roleImage, Name: spec.Name, Project: spec.Project, Job: job, Firmware: src.Firmware},
		func(percent float64) { progress(from.Written(percent)) })
	if err != nil {
		return nil, image.Cause(ctx, err)
	}
	progress(from.Written(100))
	return made, nil
}

// convert makes the RBD image from a checked file.
func (p *Pool) convert(ctx context.Context, from *image.Private, t tag, report func(float64)) (*tag, error) {
	info, err := image.Inspect(ctx, from.Path())
	if err != nil {
		return nil, err
	}
	room, err := image.Measure(ctx, from.Path(), info.Format)
	if err != nil {
		return nil, err
	}
	t.Size, t.Format = int64(info.Size), string(info.Format)
	return p.fill(ctx, t, room, func(ctx context.Context, to string) (string, error) {
		if err := image.Write(ctx, from.Path(), info.Format, to, report); err != nil {
			return "", err
		}
		return from.Digest(func() { report(100) })
	})
}

// fill makes an RBD image, lets write write the disk to it, takes its snapshot, and gives it its name. write is given the target by which
// QEMU writes, and returns the digest for the tag.
func (p *Pool) fill(
	ctx context.Context, t tag, room seedbed.Bytes, write func(ctx context.Context, to string) (sum string, err error),
) (_ *tag, err error) {
	from, to := buildingName(p.cfg.Node), rbdOf(t.Role, t.Name)
	done := p.making(from)
	defer done()
	defer func() {
		if errors.Is(err, seedbed.ErrUnavailable) || err != nil && ctx.Err() != nil {
			p.soil() // a killed qemu-img stays a user of the image for a while
		} else if err != nil {
			p.discard(ctx, from, t)
		}
	}()
	h, err := call(ctx, p, "make image "+t.Name, to, func(ctx context.Context, s *session) (header, error) {
		if err := p.need(s, room); err != nil {
			return header{}, err
		}
		opts := rbd.NewRbdImageOptions()
		defer opts.Destroy()
		if err := rbd.CreateImage(s.io, from, uint64(whole(seedbed.Bytes(t.Size))), opts); err != nil {
			return header{}, err
		}
		return s.header(from)
	})
	if err != nil {
		return nil, err
	}
	asking, stop := context.WithCancel(ctx)
	number := p.numbered(asking, h, t.Name)
	defer func() { _, _ = number() }()
	defer stop()
	if t.SHA256, err = write(ctx, p.cfg.qemuTarget(from)); err != nil {
		return nil, unanswered(err)
	}
	id, err := number()
	if err != nil {
		return nil, err
	}
	return call(ctx, p, "finish image "+t.Name, to, func(ctx context.Context, s *session) (*tag, error) {
		if have, err := p.lookOwn(ctx, s, t.Job, t.Name); err != nil {
			return nil, err
		} else if have != nil { // made by the same job at the same time
			return have, p.delete(ctx, s, from) // it has no snapshot yet
		}
		if err := s.takeSnapshot(h, id); err != nil {
			return nil, err
		}
		return p.commit(ctx, s, from, t)
	})
}

// unanswered translates the error of a tool to which Ceph did not answer to ErrUnavailable.
func unanswered(err error) error {
	e := (*command.Error)(nil)
	if errors.As(err, &e) && e.Err == nil && strings.Contains(e.Line, timedOut) {
		return seedbed.Errorf(seedbed.ErrUnavailable, "Ceph did not answer in time: %v: look at the cluster's health (ceph -s)", err)
	}
	return err
}

// timedOut is what the tool prints for ETIMEDOUT in the C locale.
const timedOut = "Connection timed out"
