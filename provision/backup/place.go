package backup

import (
	"context"
	"io"
	"time"

	"seedbed"
)

// Place is an open place. Its methods may be called at the same time.
type Place struct {
	from seedbed.BackupPlace
}

// Open opens a place that Check has made.
func Open(ctx context.Context, c seedbed.BackupPlace) (*Place, error) { return nil, errMissing }

// Check reports whether a place can be reached and written to. It makes an empty place ready for backups. Errors: ErrInvalid for a
// place that is described wrongly, or for which Identity is missing or wrong, ErrConflict for one that is encrypted for another
// recipient, ErrNotFound, ErrForbidden, ErrUnavailable.
func Check(ctx context.Context, c seedbed.BackupPlace) (seedbed.BackupPlaceInfo, error) {
	return seedbed.BackupPlaceInfo{}, errMissing
}

var errMissing = seedbed.Errorf(seedbed.ErrUnavailable, "backups are not complete in this build")

// Extent is a part of a disk, in bytes.
type Extent struct{ Offset, Length int64 }

// Source is a disk that is backed up. It does not change.
type Source interface {
	io.ReaderAt
	io.Closer
	// Size is the virtual size.
	Size() seedbed.Bytes
	// Written returns the parts that may be other than zeros, in order; ok is false if that is not known.
	Written() (parts []Extent, ok bool)
	// Changed returns the parts that may differ from the base that it was opened with, in order; ok is false if that is not known, or
	// there is none.
	Changed() (parts []Extent, ok bool)
}

// Write writes a disk. If base is the key of a disk of which src knows what has changed since, only that is read. progress may be nil;
// it is called from one goroutine at a time.
func (p *Place) Write(
	ctx context.Context, key seedbed.BackupDiskKey, src Source, base *seedbed.BackupDiskKey, progress func(seedbed.Progress),
) (seedbed.BackupDisk, error) {
	return seedbed.BackupDisk{}, errMissing
}

// DiskSize returns the virtual size of a disk whose index has that digest.
func (p *Place) DiskSize(ctx context.Context, key seedbed.BackupDiskKey, index seedbed.Digest) (seedbed.Bytes, error) {
	return 0, errMissing
}

// Restore writes the content of a disk to to, which is all zeros and at least as large. It checks the digest of the index, and of each
// chunk.
func (p *Place) Restore(
	ctx context.Context, key seedbed.BackupDiskKey, index seedbed.Digest, to io.WriterAt, progress func(seedbed.Progress),
) error {
	return errMissing
}

// Selection names backups of a place: those of Keys, or else all of Instance, or else all.
type Selection struct {
	Instance seedbed.InstanceID
	Keys     []seedbed.BackupKey
}

// Verify reads all that the selected backups consist of.
func (p *Place) Verify(ctx context.Context, s Selection, progress func(seedbed.Progress)) (seedbed.BackupCheck, error) {
	return seedbed.BackupCheck{}, errMissing
}

// WriteManifest ends a backup.
func (p *Place) WriteManifest(ctx context.Context, m seedbed.BackupManifest) error { return errMissing }

// ReadManifest returns a backup's manifest.
func (p *Place) ReadManifest(ctx context.Context, key seedbed.BackupKey) (seedbed.BackupManifest, error) {
	return seedbed.BackupManifest{}, errMissing
}

// List lists the selected backups that have a manifest.
func (p *Place) List(ctx context.Context, s Selection) (seedbed.BackupList, error) {
	return seedbed.BackupList{}, errMissing
}

// Remove removes a backup, but not its chunks. If the place refuses that, refusal is why, and the backup stays.
func (p *Place) Remove(ctx context.Context, key seedbed.BackupKey) (refusal string, err error) {
	return "", errMissing
}

// Sweep removes what no backup names and is older than grace.
func (p *Place) Sweep(ctx context.Context, grace time.Duration, progress func(seedbed.Progress)) (seedbed.BackupSwept, error) {
	return seedbed.BackupSwept{}, errMissing
}
