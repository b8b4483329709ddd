package effects

import (
	"time"

	"seedbed"
)

// The effects on backups. A place that does not answer is ErrUnavailable, one that refuses ErrForbidden, one without space ErrFull,
// and one that is encrypted with a call without the key that it needs ErrInvalid.
var (
	// CheckBackupPlace reports whether a place can be reached and written to. It makes an empty place ready for backups, unless it is
	// Known. The Identity is needed once for an encrypted place that exists, to learn its NameKey.
	CheckBackupPlace = Query[seedbed.BackupPlace, seedbed.BackupPlaceInfo]{"check-backup-place"}
	// BackupVolume writes a volume's content at a snapshot to a place. The backup is not listed before WriteManifest.
	BackupVolume = Effect[VolumeBackup, seedbed.BackupDisk]{"backup-volume"}
	// RestoreBackup makes a volume with the content of a disk of a backup. An existing volume that the same job has restored is returned
	// unchanged. After an error no partly made volume is left.
	RestoreBackup = Effect[BackupRestore, seedbed.VolumeInfo]{"restore-backup"}
	// VerifyBackup reads all that backups consist of.
	VerifyBackup = Effect[BackupSelection, seedbed.BackupCheck]{"verify-backup"}
	// WriteManifest ends a backup. All of its disks must be in the place. A manifest that exists is replaced.
	WriteManifest = Order[NewManifest]{"write-manifest"}
	// ReadManifest returns a backup's manifest; ErrNotFound without it.
	ReadManifest = Query[BackupRef, seedbed.BackupManifest]{"read-manifest"}
	// ListBackups lists the backups that have a manifest.
	ListBackups = Query[BackupSelection, seedbed.BackupList]{"list-backups"}
	// RemoveBackup removes a backup, or what an unfinished one has left. Its chunks stay until SweepBackups. An absent backup counts as
	// removed.
	RemoveBackup = Effect[BackupRef, BackupRemoved]{"remove-backup"}
	// SweepBackups removes the chunks that no backup names, and what is left of backups that were never finished.
	SweepBackups = Effect[BackupSweep, seedbed.BackupSwept]{"sweep-backups"}
)

type (
	// VolumeBackup asks for a backup of a volume.
	VolumeBackup struct {
		// Of is the volume and the snapshot that is read.
		Of seedbed.SnapshotSpec `json:"of"`
		// Base is the name of the volume's snapshot that is in the place as BaseKey. With both, only what has changed since is read, if the
		// pool knows that. If the snapshot or the index is not there any more, all is read.
		Base    string                 `json:"base,omitempty"`
		BaseKey *seedbed.BackupDiskKey `json:"base_key,omitempty"`
		Key     seedbed.BackupDiskKey  `json:"key"`
		Place   seedbed.BackupPlace    `json:"place"`
	}
	// BackupRestore asks for a volume with the content of a disk of a backup. The spec has no image; its size is at least that of the disk,
	// or zero for that.
	BackupRestore struct {
		Volume seedbed.VolumeSpec    `json:"volume"`
		Key    seedbed.BackupDiskKey `json:"key"`
		// Index is the digest of the disk's index in the manifest.
		Index seedbed.Digest      `json:"index"`
		Place seedbed.BackupPlace `json:"place"`
	}
	// BackupRef names a backup.
	BackupRef struct {
		Place seedbed.BackupPlace `json:"place"`
		Key   seedbed.BackupKey   `json:"key"`
	}
	// BackupSelection names backups of a place: those of Keys, or else all of Instance, or else all.
	BackupSelection struct {
		Place    seedbed.BackupPlace `json:"place"`
		Instance seedbed.InstanceID  `json:"instance,omitempty"`
		Keys     []seedbed.BackupKey `json:"keys,omitempty"`
	}
	// BackupRemoved is what became of a backup that was to be removed.
	BackupRemoved struct {
		// Refusal is why the place did not let it be removed, for example because it is locked. The backup then stays.
		Refusal string `json:"refusal,omitempty"`
	}
	// NewManifest is a backup's manifest, and where it is written to.
	NewManifest struct {
		Place    seedbed.BackupPlace    `json:"place"`
		Manifest seedbed.BackupManifest `json:"manifest"`
	}
	// BackupSweep asks for a sweep.
	BackupSweep struct {
		Place seedbed.BackupPlace `json:"place"`
		// Grace is how old what no backup names must be, at least MinBackupGrace.
		Grace time.Duration `json:"grace"`
	}
)

// MinBackupGrace is the least BackupSweep.Grace: longer than any call may take, so that a backup that is being made loses nothing.
const MinBackupGrace = MaxTimeout + time.Hour
