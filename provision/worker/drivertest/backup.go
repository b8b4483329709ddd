package drivertest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/pooltag"
)

// OpenSnapshot implements worker.Archiver. The disk begins with what tests have written to it. It does not know what has changed.
func (p *Pool) OpenSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, _ string) (backup.Source, error) {
	return effect(ctx, p, "OpenSnapshot", func() (backup.Source, error) {
		if err := seedbed.CheckName("volume", spec.Volume); err != nil {
			return nil, err
		}
		v, err := p.must(spec.Volume, spec.Instance)
		if err == nil {
			err = v.FindToRestore(p.name, spec.Name)
		}
		if err != nil {
			return nil, err
		}
		return &archived{content: v.content.at[spec.Name], size: v.Snapshots[v.Find(spec.Name)].Info().Size}, nil
	})
}

// OpenVolume implements worker.Archiver. The disk begins with what tests have written to it.
func (p *Pool) OpenVolume(ctx context.Context, _ seedbed.JobID, s seedbed.CopySource) (backup.Source, error) {
	if s.At != "" {
		return p.OpenSnapshot(ctx, seedbed.SnapshotSpec{Volume: s.From, Instance: s.Of, Name: s.At}, "")
	}
	return effect(ctx, p, "OpenVolume", func() (backup.Source, error) {
		if err := s.Check(); err != nil {
			return nil, err
		}
		v, err := p.must(s.From, s.Of)
		if err == nil {
			err = p.unused(v)
		}
		if err != nil {
			return nil, err
		}
		return &archived{content: v.content.now, size: seedbed.Bytes(v.Size)}, nil
	})
}

// archived is a volume that is read.
type archived struct {
	content string
	size    seedbed.Bytes
}

func (s *archived) Close() error                     { return nil }
func (s *archived) Size() seedbed.Bytes              { return s.size }
func (s *archived) Changed() ([]backup.Extent, bool) { return nil, false }

func (s *archived) Written() ([]backup.Extent, bool) {
	return []backup.Extent{{Length: int64(len(s.content))}}, true
}

func (s *archived) Read(ctx context.Context, b []byte, offset int64) error {
	clear(b)
	if offset < int64(len(s.content)) {
		copy(b, s.content[offset:])
	}
	return ctx.Err()
}

// sink is a volume that is filled. It keeps what comes before the last byte that is not zero.
type sink struct {
	mu      sync.Mutex
	content []byte
}

func (s *sink) Write(ctx context.Context, b []byte, offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lack := int(offset) + len(b) - len(s.content); lack > 0 {
		s.content = append(s.content, make([]byte, lack)...)
	}
	copy(s.content[offset:], b)
	return ctx.Err()
}

// FillVolume implements worker.Archiver.
func (p *Pool) FillVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec, from string, fill func(context.Context, backup.Sink) error,
) (info seedbed.VolumeInfo, err error) {
	err = p.around(ctx, "FillVolume", func() error {
		if err := pooltag.CheckSpec(spec); err != nil {
			return err
		}
		made := volume{Tag: pooltag.Tag{Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, From: from, Flat: true,
			Size: int64(spec.Size)}}
		info = p.info(&made)
		if there, err := p.filled(&made); there || err != nil {
			return err
		}
		to := &sink{}
		if err := fill(ctx, to); err != nil {
			return err
		}
		made.content.now = strings.TrimRight(string(to.content), "\x00")
		p.mu.Lock()
		defer p.mu.Unlock()
		p.volumes[spec.Name] = made
		return nil
	})
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return info, nil
}

// filled reports whether the volume exists that is to be made.
func (p *Pool) filled(made *volume) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have, ok := p.volumes[made.Name]; ok {
		return true, have.CheckSame(p.name, made.Tag)
	}
	return false, p.room()
}

// Targets reaches targets of backups that are directories of this host, as a fleet does through workers.
type Targets struct{ Node string }

// TargetNode returns the only node.
func (t Targets) TargetNode(seedbed.BackupTarget) (string, error) { return t.Node, nil }

// CheckTarget makes a target ready.
func (Targets) CheckTarget(ctx context.Context, t seedbed.BackupTarget) (seedbed.BackupPlaceInfo, error) {
	return backup.Check(ctx, t.Place())
}

// ListBackups lists the backups in a target.
func (Targets) ListBackups(ctx context.Context, t seedbed.BackupTarget) (list seedbed.BackupList, err error) {
	err = InTarget(ctx, t, func(p *backup.Place) error {
		list, err = p.List(ctx, backup.Selection{})
		return err
	})
	return list, err
}

// BackupManifest returns the manifest of a backup.
func (Targets) BackupManifest(
	ctx context.Context, t seedbed.BackupTarget, key seedbed.BackupKey,
) (m seedbed.BackupManifest, err error) {
	err = InTarget(ctx, t, func(p *backup.Place) error {
		m, err = p.ReadManifest(ctx, key)
		return err
	})
	return m, err
}

// InTarget calls f with a target's place.
func InTarget(ctx context.Context, t seedbed.BackupTarget, f func(*backup.Place) error) error {
	p, err := backup.Open(ctx, t.Place())
	if err != nil {
		return err
	}
	return errors.Join(f(p), p.Close())
}
