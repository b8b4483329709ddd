//go:build ceph

package ceph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/cgate"
	"seedbed/provision/backup"
	"seedbed/provision/pooltag"
)

// opened is an RBD image that a call of many steps has open, of a session that is not closed in the meantime. Each step goes through the
// gate.
type opened struct {
	p    *Pool
	s    *session
	what string

	mu  sync.RWMutex // for writing while the image is closed: a caller may have left a step that has not ended
	img *rbd.Image   // nil once it is closed
}

// step calls do with the image.
func (o *opened) step(ctx context.Context, do func(*rbd.Image) error) error {
	_, err := cgate.Through(ctx, o.p.gate, o.what, "", func(ctx context.Context) (struct{}, error) {
		o.mu.RLock()
		defer o.mu.RUnlock()
		if o.img == nil { // the caller has left
			return struct{}{}, ctx.Err()
		}
		return struct{}{}, do(o.img)
	})
	return explain(o.what, err)
}

// Close closes the image and returns the session.
func (o *opened) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanFor)
	defer cancel()
	_, err := cgate.Through(ctx, o.p.gate, o.what, "", func(context.Context) (struct{}, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		err := o.s.closeImage(o.img)
		o.img = nil
		o.p.link.put(o.s, is(err, shutDown))
		return struct{}{}, err
	})
	return explain(o.what, err)
}

// hold makes a session that a call has last until put.
func (l *link) hold(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.users++
}

// disk is a volume at a snapshot.
type disk struct {
	opened
	size             seedbed.Bytes
	written, changed []backup.Extent
	based            bool
}

func (d *disk) Size() seedbed.Bytes              { return d.size }
func (d *disk) Written() ([]backup.Extent, bool) { return d.written, true }
func (d *disk) Changed() ([]backup.Extent, bool) { return d.changed, d.based }

// Read implements backup.Source.
func (d *disk) Read(ctx context.Context, b []byte, offset int64) error {
	return d.step(ctx, func(img *rbd.Image) error {
		n, err := img.ReadAt(b, offset)
		if err == nil && n < len(b) {
			err = fmt.Errorf("%d bytes at %d, not %d", n, offset, len(b))
		}
		return err
	})
}

// OpenSnapshot implements worker.Archiver. librbd knows what was written, and what has changed since base.
func (p *Pool) OpenSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, base string) (backup.Source, error) {
	if err := seedbed.CheckName("volume", spec.Volume); err != nil {
		return nil, err
	}
	rbdName := rbdOf(roleVolume, spec.Volume)
	d := &disk{opened: opened{p: p, what: fmt.Sprintf("read snapshot %s of volume %s in pool %s", spec.Name, spec.Volume, p.cfg.Name)}}
	what := fmt.Sprintf("open snapshot %s of volume %s", spec.Name, spec.Volume)
	err := p.do(ctx, what, rbdName, func(ctx context.Context, s *session) error {
		have, err := p.there(ctx, s, spec.Volume, spec.Instance)
		if err == nil {
			err = have.FindToRestore(p.cfg.Name, spec.Name)
		}
		if err != nil {
			return err
		}
		d.based = base != "" && have.Find(base) >= 0
		img, err := rbd.OpenImageReadOnly(s.io, rbdName, spec.Name)
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // the caller has left
			return errors.Join(ctx.Err(), s.closeImage(img))
		}
		p.link.hold(s)
		d.s, d.img = s, img
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := d.survey(ctx, base); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// OpenVolume implements worker.Archiver. A volume that a domain may use is read at s.Snapshot, which is taken for that.
func (p *Pool) OpenVolume(ctx context.Context, job seedbed.JobID, s seedbed.CopySource) (backup.Source, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := p.takePoint(ctx, job, s); err != nil {
		return nil, err
	}
	return p.OpenSnapshot(ctx, seedbed.SnapshotSpec{Volume: s.From, Instance: s.Of, Name: cmp.Or(s.At, s.Snapshot)}, "")
}

// survey asks for the size, and for what was written and has changed.
func (d *disk) survey(ctx context.Context, base string) error {
	return d.step(ctx, func(img *rbd.Image) error {
		size, err := img.GetSize()
		if err != nil {
			return err
		}
		d.size = seedbed.Bytes(size)
		if d.written, err = extents(img, rbd.NoSnapshot, size); err != nil || !d.based {
			return err
		}
		d.changed, err = extents(img, base, size)
		if is(err, enoent, einval) { // the snapshot is gone
			d.based = false
			return nil
		}
		return err
	})
}

// extents returns what has data in an image, if since is empty, or else what differs from that snapshot.
func extents(img *rbd.Image, since string, size uint64) (all []backup.Extent, err error) {
	err = img.DiffIterate(rbd.DiffIterateConfig{
		SnapName: since, Length: size, IncludeParent: rbd.IncludeParent,
		Callback: func(offset, length uint64, exists int, _ any) int {
			if exists == 0 && since == rbd.NoSnapshot {
				return 0
			}
			if n := len(all); n > 0 && all[n-1].Offset+all[n-1].Length == int64(offset) {
				all[n-1].Length += int64(length)
			} else {
				all = append(all, backup.Extent{Offset: int64(offset), Length: int64(length)})
			}
			return 0
		},
	})
	return all, err
}

// FillVolume implements worker.Archiver.
func (p *Pool) FillVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec, from string, fill func(context.Context, backup.Sink) error,
) (info seedbed.VolumeInfo, err error) {
	if err := pooltag.CheckSpec(spec); err != nil {
		return info, err
	}
	t := tag{Role: roleVolume, Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, From: from, Flat: true,
		Size: int64(whole(spec.Size))}
	name, to := buildingName(p.cfg.Node), rbdOf(roleVolume, spec.Name)
	done := p.making(name)
	defer done()
	what := "restore volume " + spec.Name
	have, img, err := p.beginFill(ctx, what, name, t)
	if err == nil && have == nil {
		defer func() {
			if errors.Is(err, seedbed.ErrUnavailable) {
				p.soil()
			} else if err != nil {
				p.discard(ctx, name, t)
			}
		}()
		err = fill(ctx, img)
		if err == nil {
			err = img.step(ctx, func(img *rbd.Image) error { return img.Flush() })
		}
		err = errors.Join(err, img.Close())
		if err == nil {
			have, err = call(ctx, p, what, to, func(ctx context.Context, s *session) (*tag, error) {
				if have, err := p.look(ctx, s, roleVolume, spec.Name, job); err != nil || have != nil { // another call was faster
					return have, errors.Join(err, p.delete(ctx, s, name))
				}
				return p.commit(ctx, s, name, t)
			})
		}
	}
	if err == nil {
		err = have.CheckSame(p.cfg.Name, t)
	}
	if err != nil {
		return info, err
	}
	return call(ctx, p, what, to, func(_ context.Context, s *session) (seedbed.VolumeInfo, error) { return p.volume(s, have), nil })
}

// sink is a new RBD image that is filled.
type sink struct{ opened }

// Write implements backup.Sink.
func (k *sink) Write(ctx context.Context, b []byte, offset int64) error {
	return k.step(ctx, func(img *rbd.Image) error {
		if err := k.p.need(k.s, 0); err != nil {
			return err
		}
		_, err := img.WriteAt(b, offset)
		return err
	})
}

// beginFill returns the volume of that tag, if it exists, or else a new RBD image under a name that is not final.
func (p *Pool) beginFill(ctx context.Context, what, name string, t tag) (have *tag, img *sink, err error) {
	img = &sink{opened: opened{p: p, what: what + " in pool " + p.cfg.Name}}
	err = p.do(ctx, what, rbdOf(t.Role, t.Name), func(ctx context.Context, s *session) (err error) {
		if have, err = p.look(ctx, s, t.Role, t.Name, t.Job); err != nil || have != nil {
			return err
		}
		if err := p.need(s, 0); err != nil {
			return err
		}
		opts := rbd.NewRbdImageOptions()
		defer opts.Destroy()
		if err := rbd.CreateImage(s.io, name, uint64(t.Size), opts); err != nil {
			return err
		}
		open, err := rbd.OpenImage(s.io, name, rbd.NoSnapshot)
		if err != nil {
			return errors.Join(err, p.delete(ctx, s, name))
		}
		if ctx.Err() != nil { // the caller has left
			return errors.Join(ctx.Err(), s.closeImage(open), p.delete(context.WithoutCancel(ctx), s, name))
		}
		p.link.hold(s)
		img.s, img.img = s, open
		return nil
	})
	return have, img, err
}
