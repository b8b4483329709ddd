package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"seedbed"
	"seedbed/provision/image"
)

// Locate implements worker.Adopter. The disk must be a qcow2 file on the pool's file system, so
// that renaming it makes it a volume.
func (p *Pool) Locate(ctx context.Context, d seedbed.ForeignDisk) (seedbed.ForeignDisk, error) {
	if d.Type != "file" {
		return d, seedbed.Errorf(seedbed.ErrNotFound, "disk %s is not a file", d.Target)
	}
	if err := p.ready(ctx); err != nil {
		return d, err
	}
	t, err := p.adoptable(ctx, d.Source)
	if err != nil {
		return d, err
	}
	d.Pool, d.Size, d.Image = p.name, seedbed.Bytes(t.Size), t.Image
	return d, nil
}

// adoptable inspects a file that is to become a volume and returns the tag that it would have,
// without a name.
func (p *Pool) adoptable(ctx context.Context, path string) (tag, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return tag{}, seedbed.Errorf(seedbed.ErrInvalid, "disk file %q: expected a clean absolute path", path)
	}
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tag{}, seedbed.Errorf(seedbed.ErrNotFound, "disk file %s does not exist", path)
	}
	if err != nil {
		return tag{}, err
	}
	own, err := os.Stat(filepath.Join(p.path, volumes))
	if err != nil {
		return tag{}, err
	}
	if device(st) != device(own) {
		return tag{}, seedbed.Errorf(seedbed.ErrNotFound, "disk file %s is not on the file system of pool %s", path, p.name)
	}
	dir, base := filepath.Split(path)
	for _, kind := range []string{images, building, uploads, trash} {
		if own := filepath.Join(p.path, kind); filepath.Clean(dir) == own ||
			strings.HasPrefix(dir, own+"-") { // a node's directory in a shared pool
			return tag{}, seedbed.Errorf(seedbed.ErrConflict, "disk file %s is the pool's own", path)
		}
	}
	if filepath.Clean(dir) == filepath.Join(p.path, volumes) {
		if have, err := readTag(path + tagSuffix); err != nil || have != nil && called(have, volumes, strings.TrimSuffix(base, suffix)) {
			return tag{}, errors.Join(err, seedbed.Errorf(seedbed.ErrConflict, "disk file %s is already a volume", path))
		}
	}
	if !st.Mode().IsRegular() {
		return tag{}, seedbed.Errorf(seedbed.ErrInvalid, "disk file %s is not a regular file", path)
	}
	return p.readable(ctx, path)
}

// readable inspects the file: a volume has no backing file, or an image of the pool.
func (p *Pool) readable(ctx context.Context, path string) (t tag, err error) {
	info, err := image.InspectDisk(ctx, path)
	if err != nil {
		return t, fmt.Errorf("disk file %s: %w", path, err)
	}
	backing := info.Backing
	t.Size = int64(info.Size)
	if backing == "" {
		return t, nil
	}
	name, ok := strings.CutSuffix(filepath.Base(backing), suffix)
	// The relative path of the image must be right as seen from the volumes' directory.
	if ok && (backing == p.file(images, name) || backing == filepath.Join("..", images, name+suffix)) {
		if base, err := p.look(images, name); err == nil && base != nil {
			t.Image = base.Name
			return t, nil
		}
	}
	return t, seedbed.Errorf(seedbed.ErrInvalid,
		"disk file %s reads from %s, which is not an image of pool %s: make it independent first (qemu-img rebase -b '')", path, backing, p.name)
}

func device(st os.FileInfo) uint64 { return st.Sys().(*syscall.Stat_t).Dev }

// AdoptVolume implements worker.Adopter. A crash in between leaves a tag without a file, which
// counts as nothing.
func (p *Pool) AdoptVolume(ctx context.Context, job seedbed.JobID, a seedbed.VolumeAdoption) (seedbed.VolumeInfo, error) {
	if err := seedbed.CheckName("volume", a.Name); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if err := p.enter(ctx); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("adopt volume %s: %w", a.Name, err)
	}
	defer p.leave()
	have, err := p.look(volumes, a.Name)
	if err == nil && have != nil {
		err = have.CheckInstance(p.name, a.Instance)
	}
	final := p.file(volumes, a.Name)
	switch {
	case have != nil && err == nil:
		return p.volume(have), nil
	case err != nil && final != a.Source: // otherwise the file is there without its tag
		return seedbed.VolumeInfo{}, err
	}
	t, err := p.adoptable(ctx, a.Source)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	t.Name, t.Job, t.Instance, t.Project = a.Name, job, a.Instance, a.Project
	if err := p.writeTag(final+tagSuffix, t); err != nil {
		return seedbed.VolumeInfo{}, p.room(err)
	}
	if final != a.Source {
		if err := relocate(a.Source, final); err != nil {
			return seedbed.VolumeInfo{}, errors.Join(err, os.Remove(final+tagSuffix))
		}
	}
	return p.volume(&t), nil
}

// ReleaseVolume implements worker.Adopter.
func (p *Pool) ReleaseVolume(ctx context.Context, a seedbed.VolumeAdoption) error {
	if err := seedbed.CheckName("volume", a.Name); err != nil {
		return err
	}
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("release volume %s: %w", a.Name, err)
	}
	defer p.leave()
	final := p.file(volumes, a.Name)
	if t, err := readTag(final + tagSuffix); err == nil && t == nil {
		return nil // released, or never adopted
	}
	have, err := p.free(a.Name, a.Instance)
	if err != nil {
		return err
	}
	if have != nil && a.Source != "" && a.Source != final {
		if err := relocate(final, a.Source); err != nil {
			return err
		}
	}
	if err := os.Remove(final + tagSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncPath(filepath.Dir(final))
}

// relocate renames a file to a name that must be free.
func relocate(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, fs.ErrExist) {
		a, errA := os.Stat(from)
		b, errB := os.Stat(to)
		if errA != nil || errB != nil || !os.SameFile(a, b) { // otherwise an earlier call was interrupted here
			return seedbed.Errorf(seedbed.ErrConflict, "%s already exists and is not changed", to)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	if err := syncPath(filepath.Dir(to)); err != nil {
		return err
	}
	if err := os.Remove(from); err != nil {
		return err
	}
	return syncPath(filepath.Dir(from))
}
