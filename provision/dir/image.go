package dir

import (
	"context"
	"encoding/hex"
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

// ImportImage implements worker.ImageStore. The file is first copied into the
// pool, so that what is checked is what is used, and is then converted to
// qcow2: the pool needs room for both for a while. Progress counts the bytes
// of the file twice, once for each half of the work.
func (p *Pool) ImportImage(ctx context.Context, job seedbed.JobID, spec seedbed.ImageSpec, progress func(seedbed.Progress)) (seedbed.ImageInfo, error) {
	if err := checkSpec(spec); err != nil {
		return seedbed.ImageInfo{}, err
	}
	if progress == nil {
		progress = func(seedbed.Progress) {}
	}
	have, err := p.importedBy(ctx, job, spec.Name)
	if err != nil || have != nil {
		return p.imageOrZero(have), err
	}
	src, err := openSource(spec.Path)
	if err != nil {
		return seedbed.ImageInfo{}, err
	}
	defer src.Close()
	t, err := p.importFile(ctx, src, spec, job, progress)
	if errors.Is(err, seedbed.ErrInvalid) {
		err = fmt.Errorf("%s %w", spec.Path, err) // the text is a predicate
	} else if err != nil {
		err = fmt.Errorf("import %s: %w", spec.Path, err)
	}
	return p.imageOrZero(t), err
}

func checkSpec(spec seedbed.ImageSpec) error {
	if err := seedbed.CheckName("image", spec.Name); err != nil {
		return err
	}
	if !filepath.IsAbs(spec.Path) || strings.ContainsRune(spec.Path, 0) {
		return seedbed.Errorf(seedbed.ErrInvalid, "path %q of the image is not absolute", spec.Path)
	}
	if b, err := hex.DecodeString(spec.SHA256); err != nil || len(b) != 0 && len(b) != 32 {
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not a SHA-256 digest: want 64 hexadecimal digits", spec.SHA256)
	}
	return nil
}

// importedBy finds the image of that name: nil when there is none, ErrConflict when it is another job's.
func (p *Pool) importedBy(ctx context.Context, job seedbed.JobID, name string) (*tag, error) {
	if err := p.enter(ctx); err != nil {
		return nil, fmt.Errorf("import image %s: %w", name, err)
	}
	defer p.leave()
	return p.lookOwn(job, name)
}

func (p *Pool) lookOwn(job seedbed.JobID, name string) (*tag, error) {
	have, err := p.look(images, name)
	if have != nil && have.Job != job {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "image %s in pool %s was imported by job %s", name, p.name, have.Job)
	}
	return have, err
}

// openSource opens a file once; everything that follows reads this opening. It
// does not wait for the other end of a FIFO.
func openSource(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "there is no file %s on this host", path)
	case err != nil:
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the image cannot be read: %v", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = seedbed.Errorf(seedbed.ErrInvalid, "%s is not a regular file: want a disk image", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// importFile makes the image. An ErrInvalid of its own is a predicate of the file.
func (p *Pool) importFile(ctx context.Context, src *os.File, spec seedbed.ImageSpec, job seedbed.JobID, progress func(seedbed.Progress)) (*tag, error) {
	private, sum, size, err := p.copyIn(ctx, src, progress)
	if private != "" {
		defer p.discard(private)
	}
	if err != nil {
		return nil, err
	}
	if spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, sum) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "has the SHA-256 digest %s: want %s", sum, strings.ToLower(spec.SHA256))
	}
	info, err := image.Inspect(ctx, private)
	if err != nil {
		return nil, err
	}
	result, err := p.convert(ctx, private, info.Format, func(percent float64) {
		progress(seedbed.Progress{Done: size + seedbed.Bytes(percent/100*float64(size)), Total: 2 * size})
	})
	if result != "" {
		defer p.discard(result)
	}
	if err != nil {
		return nil, err
	}
	t := tag{Name: spec.Name, Job: job, Size: int64(info.Size), Format: string(info.Format), SHA256: sum}
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	if have, err := p.lookOwn(job, spec.Name); err != nil || have != nil {
		return have, err
	}
	if err := p.publish(result, images, 0o644, t); err != nil {
		return nil, err
	}
	progress(seedbed.Progress{Done: 2 * size, Total: 2 * size})
	return &t, nil
}

// convert makes a qcow2 file of the private copy, when there is room for it.
func (p *Pool) convert(ctx context.Context, private string, format image.Format, report func(float64)) (string, error) {
	size, err := image.Measure(ctx, private, format)
	if err != nil {
		return "", err
	}
	if err := p.need(size); err != nil {
		return "", err
	}
	path, err := p.tempPath()
	if err != nil {
		return "", err
	}
	return path, p.room(image.Convert(ctx, private, format, path, size, report))
}

// RemoveImage implements worker.ImageStore.
func (p *Pool) RemoveImage(ctx context.Context, job seedbed.JobID, name string) error {
	if err := seedbed.CheckName("image", name); err != nil {
		return err
	}
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	defer p.leave()
	have, err := p.lookOwn(job, name)
	if have == nil || err != nil {
		return err
	}
	clones, err := p.tags(volumes)
	if err != nil {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	for _, v := range clones {
		if v.Image == name {
			return seedbed.Errorf(seedbed.ErrInUse, "image %s in pool %s has clones: volume %s of instance %s is one", name, p.name, v.Name, v.Instance)
		}
	}
	if err := p.withdraw(images, name); err != nil {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	return nil
}

func (p *Pool) imageOrZero(t *tag) seedbed.ImageInfo {
	if t == nil {
		return seedbed.ImageInfo{}
	}
	return seedbed.ImageInfo{Pool: p.name, Name: t.Name, Job: t.Job, Size: seedbed.Bytes(t.Size), Format: t.Format, SHA256: t.SHA256}
}
