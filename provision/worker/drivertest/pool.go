package drivertest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/pooltag"
)

// Pool is a worker.Pool in memory. It outlives the servers that use it, as a directory does. An
// image for it is any file of at least 512 bytes that ends its first sector with the boot signature
// 55 AA, as BootableFile writes it.
type Pool struct {
	failpoints
	name   string
	shared bool
	mu     sync.Mutex
	full   bool
	images map[string]pooltag.Tag
	// contents is what tests had written to the volumes that images were made from.
	contents map[string]string
	volumes  map[string]volume
	keep     time.Duration
	trash    []volume
	trashed  int // how many were ever trashed
	uploads  map[string][]byte
	// block is set if its disks are none that are files, openers are the hypervisors whose domains open them as files.
	block   bool
	openers []*Hypervisor
}

// volume is a volume, with its tag and what maps it. One without an instance is not Seedbed's.
type volume struct {
	pooltag.Tag
	mapped  *mapped
	content content
}

func (p *Pool) info(v *volume) seedbed.VolumeInfo {
	if p.block {
		return v.VolumeInfo(p.name, seedbed.Disk{Type: "rbd", Source: p.source(v.Name), Format: "raw"})
	}
	return v.VolumeInfo(p.name, seedbed.Disk{Type: "file", Source: p.source(v.Name), Format: "qcow2"})
}

// source is where the disk of a volume is.
func (p *Pool) source(name string) string {
	if p.shared {
		return "/memory/" + p.name + "/" + name + ".qcow2"
	}
	return "/memory/" + name + ".qcow2"
}

const poolSize = 1 * seedbed.TiB

// NewPool makes an empty pool named "default".
func NewPool() *Pool {
	return &Pool{name: "default", images: map[string]pooltag.Tag{}, contents: map[string]string{}, volumes: map[string]volume{},
		uploads: map[string][]byte{}}
}

// SetFull makes every method that needs room fail with ErrFull, until it is reset.
func (p *Pool) SetFull(full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full = full
}

// SetShared makes it the pool of that name that several nodes share, and returns it.
func (p *Pool) SetShared(name string) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.shared = name, true
	return p
}

// SetBlock makes its disks RBD images, of which snapshots are taken whoever has them open.
func (p *Pool) SetBlock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.block = true
}

// AddForeign adds a volume that does not carry Seedbed's tag.
func (p *Pool) AddForeign(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes[name] = volume{Tag: pooltag.Tag{Name: name}}
}

// AddImage adds an image of that virtual size as if job had imported it.
func (p *Pool) AddImage(job seedbed.JobID, name string, size seedbed.Bytes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.images[name] = pooltag.Tag{Name: name, Job: job, Size: int64(size), Format: "raw"}
}

// effect is an effect of the pool with a result: with its failpoints, and under the lock.
func effect[T any](ctx context.Context, p *Pool, name string, f func() (T, error)) (T, error) {
	var result, none T
	err := p.effect(ctx, name, func() (err error) {
		result, err = f()
		return err
	})
	if err != nil {
		return none, err
	}
	return result, nil
}

// effect is an effect without a result.
func (p *Pool) effect(ctx context.Context, name string, f func() error) error {
	return p.around(ctx, name, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return f()
	})
}

// room returns ErrFull after SetFull. The lock is held.
func (p *Pool) room() error {
	if p.full {
		return seedbed.Errorf(seedbed.ErrFull, "pool %s is full", p.name)
	}
	return nil
}

// CloneVolume implements worker.Cloner.
func (p *Pool) CloneVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error) {
	return effect(ctx, p, "CloneVolume", func() (info seedbed.VolumeInfo, err error) {
		if err := seedbed.CheckName("volume", spec.Name); err != nil {
			return info, err
		}
		size := spec.Size
		if spec.Image != "" {
			image, ok := p.images[spec.Image]
			if !ok {
				return info, seedbed.Errorf(seedbed.ErrNotFound, "image %q is not in pool %s", spec.Image, p.name)
			}
			if size, err = image.CloneSize(spec); err != nil {
				return info, err
			}
		}
		if size <= 0 {
			return info, seedbed.Errorf(seedbed.ErrInvalid, "a blank volume needs a size")
		}
		want := volume{Tag: pooltag.Tag{
			Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, Image: spec.Image, Size: int64(size),
		}}
		if v, ok := p.volumes[spec.Name]; ok {
			if v.CheckSame(p.name, want.Tag) != nil {
				return info, seedbed.Errorf(seedbed.ErrConflict, "volume %s exists and is another one", spec.Name)
			}
			return p.info(&v), nil
		}
		if err := p.room(); err != nil {
			return info, err
		}
		p.volumes[spec.Name] = want
		return p.info(&want), nil
	})
}

// RemoveVolume implements worker.Remover.
func (p *Pool) RemoveVolume(ctx context.Context, name string, id seedbed.InstanceID) error {
	return p.effect(ctx, "RemoveVolume", func() error {
		v, err := p.own(name, id)
		if v == nil || err != nil {
			return err
		}
		if err := p.unused(v); err != nil {
			return err
		}
		delete(p.volumes, name)
		return nil
	})
}

// ImportImage implements worker.ImageStore.
func (p *Pool) ImportImage(ctx context.Context, job seedbed.JobID, spec seedbed.ImageSpec,
	progress func(seedbed.Progress)) (seedbed.ImageInfo, error) {
	return effect(ctx, p, "ImportImage", func() (info seedbed.ImageInfo, err error) {
		if err := seedbed.CheckQualifiedName("image", spec.Name); err != nil {
			return info, err
		}
		if have, ok := p.images[spec.Name]; ok {
			return have.ImageInfo(p.name), have.CheckImporter(p.name, job)
		}
		if err := p.room(); err != nil {
			return info, err
		}
		if spec.From != "" {
			return p.imageOf(job, spec, progress)
		}
		data, err := p.readImage(ctx, spec)
		if err != nil {
			return info, err
		}
		size := seedbed.Bytes(len(data))
		for done := range size / (64 * seedbed.KiB) {
			report(progress, done*64*seedbed.KiB, size)
		}
		report(progress, size, size)
		sum := sha256.Sum256(data)
		made := pooltag.Tag{Name: spec.Name, Project: spec.Project, Job: job, Size: int64(size), Format: formatOf(data),
			SHA256: hex.EncodeToString(sum[:])}
		p.fromUpload(ctx, spec, &made)
		p.images[spec.Name] = made
		return made.ImageInfo(p.name), nil
	})
}

// imageOf makes an image with what a volume has. The lock is held.
func (p *Pool) imageOf(job seedbed.JobID, spec seedbed.ImageSpec, progress func(seedbed.Progress)) (seedbed.ImageInfo, error) {
	from, err := p.must(spec.From, spec.Of)
	if err == nil {
		err = spec.CopySource.Check()
	}
	if err == nil {
		err = from.CheckAt(p.name, spec.CopySource)
	}
	if err == nil {
		err = p.unused(from)
	}
	if err != nil {
		return seedbed.ImageInfo{}, err
	}
	made := pooltag.Tag{Name: spec.Name, Project: spec.Project, Job: job, Size: from.Size, Format: "qcow2"}
	report(progress, seedbed.Bytes(made.Size), seedbed.Bytes(made.Size))
	p.images[spec.Name], p.contents[spec.Name] = made, from.content.of(spec.At)
	return made.ImageInfo(p.name), nil
}

// ReadImage returns what tests had written to the volume that an image was made from.
func (p *Pool) ReadImage(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contents[name]
}

// formatOf tells an ISO from another raw disk (ECMA-119 8.1).
func formatOf(data []byte) string {
	if len(data) > 32769 && bytes.HasPrefix(data[32769:], []byte("CD001")) {
		return seedbed.FormatISO
	}
	return "raw"
}

func report(progress func(seedbed.Progress), done, total seedbed.Bytes) {
	if progress != nil {
		progress(seedbed.Progress{Done: done, Total: total})
	}
}

func (p *Pool) readImage(ctx context.Context, spec seedbed.ImageSpec) ([]byte, error) {
	if spec.Upload != "" {
		return p.uploaded(ctx, spec)
	}
	if err := p.CheckImport(ctx, spec); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(spec.Path)
	if err != nil {
		return nil, err
	}
	if len(data) < 512 || data[510] != 0x55 || data[511] != 0xaa {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not a disk image", spec.Path)
	}
	if sum := sha256.Sum256(data); spec.SHA256 != "" && spec.SHA256 != hex.EncodeToString(sum[:]) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s has the SHA-256 digest %x, not %s", spec.Path, sum, spec.SHA256)
	}
	return data, nil
}

// CheckImport implements worker.ImageStore.
func (p *Pool) CheckImport(_ context.Context, spec seedbed.ImageSpec) error {
	if err := seedbed.CheckQualifiedName("image", spec.Name); err != nil {
		return err
	}
	st, err := os.Stat(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return seedbed.Errorf(seedbed.ErrNotFound, "there is no file %s", spec.Path)
	}
	if err == nil && !st.Mode().IsRegular() {
		err = seedbed.Errorf(seedbed.ErrInvalid, "%s is not a regular file", spec.Path)
	}
	return err
}

// RemoveImage implements worker.ImageStore.
func (p *Pool) RemoveImage(ctx context.Context, job seedbed.JobID, name string) error {
	return p.effect(ctx, "RemoveImage", func() error {
		have, ok := p.images[name]
		if !ok {
			return nil
		}
		if err := have.CheckImporter(p.name, job); err != nil {
			return err
		}
		reads := func(v volume) bool { return v.Image == name && v.Clone() }
		for _, v := range p.volumes {
			if reads(v) {
				return seedbed.Errorf(seedbed.ErrInUse, "image %s has clones", name)
			}
		}
		if slices.ContainsFunc(p.trash, reads) {
			return seedbed.Errorf(seedbed.ErrInUse, "image %s has clones in the trash", name)
		}
		delete(p.images, name)
		return nil
	})
}

// Volumes implements worker.Lister.
func (p *Pool) Volumes(ctx context.Context) ([]seedbed.VolumeInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []seedbed.VolumeInfo
	for _, name := range slices.Sorted(maps.Keys(p.volumes)) {
		if v := p.volumes[name]; v.Instance != "" {
			all = append(all, p.info(&v))
		}
	}
	return all, ctx.Err()
}

// Images implements worker.Lister.
func (p *Pool) Images(ctx context.Context) ([]seedbed.ImageInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []seedbed.ImageInfo
	for _, name := range slices.Sorted(maps.Keys(p.images)) {
		image := p.images[name]
		all = append(all, image.ImageInfo(p.name))
	}
	return all, ctx.Err()
}

// ImageDisk implements worker.ImageStore.
func (p *Pool) ImageDisk(ctx context.Context, name string) (seedbed.Disk, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(seedbed.CheckQualifiedName("image", name), ctx.Err()); err != nil {
		return seedbed.Disk{}, err
	}
	if _, ok := p.images[name]; !ok {
		return seedbed.Disk{}, seedbed.Errorf(seedbed.ErrNotFound, "image %q is not in pool %s", name, p.name)
	}
	return seedbed.Disk{Type: "file", Source: "/" + p.name + "/images/" + name, Format: "qcow2"}, nil
}

// Info implements worker.Lister.
func (p *Pool) Info(ctx context.Context) (seedbed.PoolInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := seedbed.PoolInfo{Name: p.name, Type: "dir", Shared: p.shared, Size: poolSize, Free: poolSize}
	if p.full {
		info.Free = 0
	}
	return info, ctx.Err()
}
