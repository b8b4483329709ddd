package drivertest

import (
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
)

// Pool is a worker.Pool in memory. It outlives the servers that use it, as a directory does. An
// image for it is any file of at least 512 bytes that ends its first sector with the boot signature
// 55 AA, as BootableFile writes it.
type Pool struct {
	failpoints
	name    string
	shared  bool
	mu      sync.Mutex
	full    bool
	images  map[string]seedbed.ImageInfo
	volumes map[string]volume
	keep    time.Duration
	trash   []trashed
	trashed int // how many were ever trashed
	uploads map[string][]byte
}

type volume struct {
	seedbed.VolumeInfo
	image     string
	flat      bool
	made      seedbed.Bytes // the size that it was made with, if it has grown since
	snapshots []seedbed.SnapshotInfo
	mapped    *mapped
}

type trashed struct {
	seedbed.TrashItem
	volume volume
}

const poolSize = 1 * seedbed.TiB

// NewPool makes an empty pool named "default".
func NewPool() *Pool {
	return &Pool{name: "default", images: map[string]seedbed.ImageInfo{}, volumes: map[string]volume{}, uploads: map[string][]byte{}}
}

// SetFull makes every method that needs room fail with ErrFull, until it is reset.
func (p *Pool) SetFull(full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full = full
}

// SetShared makes it the pool of that name that several nodes share.
func (p *Pool) SetShared(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.shared = name, true
}

// AddForeign adds a volume that does not carry Seedbed's tag.
func (p *Pool) AddForeign(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes[name] = volume{VolumeInfo: seedbed.VolumeInfo{Name: name}}
}

// AddImage adds an image of that virtual size as if job had imported it.
func (p *Pool) AddImage(job seedbed.JobID, name string, size seedbed.Bytes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.images[name] = seedbed.ImageInfo{Pool: p.name, Name: name, Job: job, Size: size, Format: "raw"}
}

func (p *Pool) effect(ctx context.Context, name string, f func() error) error {
	return p.around(ctx, name, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return f()
	})
}

// CloneVolume implements worker.Cloner.
func (p *Pool) CloneVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error) {
	var info seedbed.VolumeInfo
	err := p.effect(ctx, "CloneVolume", func() error {
		if err := seedbed.CheckName("volume", spec.Name); err != nil {
			return err
		}
		size := spec.Size
		if spec.Image != "" {
			image, ok := p.images[spec.Image]
			if !ok {
				return seedbed.Errorf(seedbed.ErrNotFound, "image %q is not in pool %s", spec.Image, p.name)
			}
			if size == 0 {
				size = image.Size
			}
			if size < image.Size {
				return seedbed.Errorf(seedbed.ErrInvalid, "volume of %s is smaller than image %s of %s", size, spec.Image, image.Size)
			}
		}
		if size <= 0 {
			return seedbed.Errorf(seedbed.ErrInvalid, "a blank volume needs a size")
		}
		if v, ok := p.volumes[spec.Name]; ok {
			if v.Instance != spec.Instance || !v.had(size) || v.image != spec.Image && !(v.flat && spec.Image == "") {
				return seedbed.Errorf(seedbed.ErrConflict, "volume %s exists and is another one", spec.Name)
			}
			info = v.VolumeInfo
			return nil
		}
		if p.full {
			return seedbed.Errorf(seedbed.ErrFull, "pool %s is full", p.name)
		}
		info = seedbed.VolumeInfo{Pool: p.name, Name: spec.Name, Instance: spec.Instance, Job: job, Size: size,
			Disk: seedbed.Disk{Type: "file", Source: "/memory/" + spec.Name + ".qcow2", Format: "qcow2"}}
		p.volumes[spec.Name] = volume{VolumeInfo: info, image: spec.Image}
		return nil
	})
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return info, nil
}

// RemoveVolume implements worker.Remover.
func (p *Pool) RemoveVolume(ctx context.Context, name string, id seedbed.InstanceID) error {
	return p.effect(ctx, "RemoveVolume", func() error {
		if v, ok := p.volumes[name]; ok && (id == "" || v.Instance != id) {
			return seedbed.Errorf(seedbed.ErrConflict, "volume %s is not instance %s's", name, id)
		} else if err := p.unused(&v); err != nil {
			return err
		}
		delete(p.volumes, name)
		return nil
	})
}

// ImportImage implements worker.ImageStore.
func (p *Pool) ImportImage(ctx context.Context, job seedbed.JobID, spec seedbed.ImageSpec,
	progress func(seedbed.Progress)) (seedbed.ImageInfo, error) {
	var info seedbed.ImageInfo
	err := p.effect(ctx, "ImportImage", func() error {
		if err := seedbed.CheckName("image", spec.Name); err != nil {
			return err
		}
		if i, ok := p.images[spec.Name]; ok {
			if i.Job != job {
				return seedbed.Errorf(seedbed.ErrConflict, "image %s exists and is another job's", spec.Name)
			}
			info = i
			return nil
		}
		if p.full {
			return seedbed.Errorf(seedbed.ErrFull, "pool %s is full", p.name)
		}
		data, err := p.readImage(spec)
		if err != nil {
			return err
		}
		size := seedbed.Bytes(len(data))
		for done := range size / (64 * seedbed.KiB) {
			report(progress, done*64*seedbed.KiB, size)
		}
		report(progress, size, size)
		sum := sha256.Sum256(data)
		info = seedbed.ImageInfo{Pool: p.name, Name: spec.Name, Job: job, Size: size, Format: "raw", SHA256: hex.EncodeToString(sum[:])}
		p.fromUpload(spec, &info)
		p.images[spec.Name] = info
		return nil
	})
	if err != nil {
		return seedbed.ImageInfo{}, err
	}
	return info, nil
}

func report(progress func(seedbed.Progress), done, total seedbed.Bytes) {
	if progress != nil {
		progress(seedbed.Progress{Done: done, Total: total})
	}
}

func (p *Pool) readImage(spec seedbed.ImageSpec) ([]byte, error) {
	if spec.Upload != "" {
		return p.uploaded(spec)
	}
	st, err := os.Stat(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "there is no file %s", spec.Path)
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not a regular file", spec.Path)
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

// RemoveImage implements worker.ImageStore.
func (p *Pool) RemoveImage(ctx context.Context, job seedbed.JobID, name string) error {
	return p.effect(ctx, "RemoveImage", func() error {
		i, ok := p.images[name]
		if !ok {
			return nil
		}
		if i.Job != job {
			return seedbed.Errorf(seedbed.ErrConflict, "image %s is another job's", name)
		}
		for _, v := range p.volumes {
			if v.image == name && !v.flat {
				return seedbed.Errorf(seedbed.ErrInUse, "image %s has clones", name)
			}
		}
		for _, t := range p.trash {
			if t.volume.image == name && !t.volume.flat {
				return seedbed.Errorf(seedbed.ErrInUse, "image %s has clones in the trash", name)
			}
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
			all = append(all, v.VolumeInfo)
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
		all = append(all, p.images[name])
	}
	return all, ctx.Err()
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
