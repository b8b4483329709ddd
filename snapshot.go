package seedbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// SnapshotSpec names one snapshot of a volume.
type SnapshotSpec struct {
	Pool     string     `json:"pool"`
	Volume   string     `json:"volume"`
	Instance InstanceID `json:"instance"` // that the volume belongs to
	Name     string     `json:"name"`     // valid for CheckName
	// Consistency is recorded with a snapshot that is taken.
	Consistency Consistency `json:"consistency,omitempty"`
}

// DiskSnapshot names a snapshot inside the file of a disk.
type DiskSnapshot struct {
	Disk Disk
	Name string
}

// MaxSnapshots is how many snapshots a volume may have. Each takes room in the pool's record of the
// volume.
const MaxSnapshots = 200

// SnapshotInfo is one finished snapshot of a volume.
type SnapshotInfo struct {
	Name    string    `json:"name"`
	Job     JobID     `json:"job"` // that made it
	Created time.Time `json:"created"`
	// Size is the size that the volume had; 0 for a snapshot that an older release took.
	Size Bytes `json:"size,omitempty"`
	// Consistency is empty for a snapshot that an older release took.
	Consistency Consistency `json:"consistency,omitempty"`
}

// TrashState is the state of a removed volume.
type TrashState string

// The states of a removed volume.
const (
	Trashed  TrashState = "trashed"  // in its pool's trash, and purged once its time is over
	Restored TrashState = "restored" // a volume again, without an instance; the cleanup skips it
)

// TrashItem is a volume that was removed from its instance and still exists.
type TrashItem struct {
	Pool string `json:"pool"`
	// Node is the node that has it; empty if the pool is shared.
	Node string `json:"node,omitempty"`
	// ID names it in the trash of its pool; empty for a restored one.
	ID    string     `json:"id,omitempty"`
	Name  string     `json:"name"` // of the volume, before and again once it is restored
	State TrashState `json:"state"`
	// Instance is the instance that the volume belonged to.
	Instance InstanceID `json:"instance"`
	// Project is the project of that instance, as far as the volume's tag or a job says it.
	Project string    `json:"project,omitempty"`
	Size    Bytes     `json:"size"`
	Removed time.Time `json:"removed,omitzero"`
	// Expires is when the cleanup purges it. Both times are zero for a restored one.
	Expires time.Time `json:"expires,omitzero"`
}

// VolumeSource is the volume that a new one, or an image, becomes a copy of.
type VolumeSource struct {
	// ID is its ID; empty for a disk of an instance. Name is what the request calls it.
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Volume and Owner are as in ProjectVolume.
	Volume string     `json:"volume"`
	Owner  InstanceID `json:"owner"`
	// Pool is the pool that has it; empty in the input of a job of an earlier release, which copies within a pool.
	Pool string `json:"pool,omitempty"`
	// Snapshot is the snapshot of the instance whose content is copied; empty means what the volume has now.
	Snapshot string `json:"snapshot,omitempty"`
}

// Source returns what a driver copies. taken is the name of the snapshot that it may take.
func (s VolumeSource) Source(taken string) CopySource {
	c := CopySource{FromPool: s.Pool, From: s.Volume, Of: s.Owner, At: s.Snapshot}
	if c.At == "" {
		c.Snapshot = taken
	}
	return c
}

// JobClone makes an instance whose disks are copies of those of another one.
const JobClone JobKind = "clone"

// CloneRequest asks for an instance with the configuration of another one and copies of its disks.
type CloneRequest struct {
	// Name is the name of the new instance.
	Name string `json:"name"`
	// Snapshot is the snapshot of the other one whose content the disks have; empty means what they have now.
	Snapshot string `json:"snapshot,omitempty"`
	// Networks map those of the other instance to those that take their place; what is not in it keeps its name.
	Networks map[string]string `json:"networks,omitempty"`
	// Generalise removes from the copy of the first disk what tells machines apart.
	Generalise bool `json:"generalise,omitempty"`
	// Off leaves the instance off.
	Off bool `json:"off,omitempty"`
	// Node is the node for it; empty leaves the choice to the placement.
	Node string `json:"node,omitempty"`
	// Freeze says whether the guest of the other one is frozen while snapshots of its disks are taken, if it runs.
	Freeze Freeze `json:"freeze,omitempty"`
}

// CloneJob is the input of a JobClone.
type CloneJob struct {
	// From is the name of the other instance, and Source its ID.
	From   string     `json:"from"`
	Source InstanceID `json:"source,omitempty"`
	// Disks are its disks, in the order of those of the new one.
	Disks []VolumeSource `json:"disks"`
	// Together is true if the job takes a snapshot of all disks first, because the guest runs.
	Together   bool   `json:"together,omitempty"`
	Freeze     Freeze `json:"freeze,omitempty"`
	Generalise bool   `json:"generalise,omitempty"`
}

// VolumeCopy asks for a volume with the content that another one has at one moment. Its spec has no image, and a size of
// at least that of the other.
type VolumeCopy struct {
	VolumeSpec
	CopySource
}

// CopySource is the volume of a pool whose content is copied.
type CopySource struct {
	// FromPool is the pool that has it; empty means that of the copy.
	FromPool string `json:"from_pool,omitempty"`
	// From is its name, and Of the instance in its tag.
	From string     `json:"from,omitempty"`
	Of   InstanceID `json:"of,omitempty"`
	// At is the snapshot of it whose content is copied; empty means what the volume has now. Snapshot is then the name of the one that a
	// driver may take for the time of the copying.
	At       string `json:"at,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
}

// Check returns ErrInvalid for names that cannot be used.
func (s CopySource) Check() error {
	if err := CheckName("volume", s.From); err != nil {
		return err
	}
	return CheckName("snapshot", cmp.Or(s.At, s.Snapshot))
}

// The kinds of a BackupPlace.
const (
	BackupDir = "dir"
	BackupS3  = "s3"
)

// MaxBackupDisks is how many disks a backup may have.
const MaxBackupDisks = 64

// Secret is a text that is not shown: formatting it, or logging it, does not print it. JSON has the text itself.
type Secret string

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// BackupPlace is where backups are, as a worker reaches it. A place is used by any number of workers and installations.
type BackupPlace struct {
	// Kind is BackupDir or BackupS3.
	Kind string `json:"kind"`
	// Path is the absolute path of a directory of the worker's host, which exists.
	Path string `json:"path,omitempty"`
	// URL is the server of a bucket, such as https://s3.example.net:7480. Prefix, if not empty, stands before the name of every object.
	URL    string `json:"url,omitempty"`
	Bucket string `json:"bucket,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Region string `json:"region,omitempty"`
	// KeyID and Secret are the access key.
	KeyID  string `json:"key_id,omitempty"`
	Secret Secret `json:"secret,omitempty"`
	// Recipient is the age public key for which new content is encrypted; empty if it is not encrypted.
	Recipient string `json:"recipient,omitempty"`
	// Identity is the age secret key of Recipient. It is needed to read what is encrypted: manifests and chunks.
	Identity Secret `json:"identity,omitempty"`
	// NameKey is the key of the names of chunks in an encrypted place, as CheckBackupPlace returned it.
	NameKey Secret `json:"name_key,omitempty"`
	// Before and After are commands that the worker's host runs before the place is used, and after that, such as
	// "mount /mnt/backup". Their words are separated by spaces; no shell reads them. The worker's configuration lists which may be run.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	// Known is set for a place that has been made. A check then makes none: an empty directory is one where nothing is mounted.
	Known bool `json:"known,omitempty"`
}

// BackupPlaceInfo describes a place that can be reached and written to.
type BackupPlaceInfo struct {
	// Made reports whether the call has made the place, which was empty.
	Made bool `json:"made"`
	// ChunkSize is how much of a disk is in one chunk.
	ChunkSize Bytes `json:"chunk_size"`
	// Recipient is the age public key for which the place is encrypted; empty if it is not.
	Recipient string `json:"recipient,omitempty"`
	// NameKey is the key of the names of chunks. Who writes backups needs it. It opens nothing.
	NameKey Secret `json:"name_key,omitempty"`
}

// BackupID names a backup of an instance.
type BackupID string

// NewBackupID draws a random ID.
func NewBackupID() BackupID { return BackupID(NewVolumeID()) }

// BackupKey names a backup in its place.
type BackupKey struct {
	Instance InstanceID `json:"instance"`
	Backup   BackupID   `json:"backup"`
}

// String returns INSTANCE/BACKUP.
func (k BackupKey) String() string { return string(k.Instance) + "/" + string(k.Backup) }

// Check returns ErrInvalid for a key that cannot be in a place.
func (k BackupKey) Check() error {
	if _, err := ParseInstanceID(string(k.Instance)); err != nil {
		return err
	}
	return CheckName("backup", string(k.Backup))
}

// BackupDiskKey names one disk of a backup.
type BackupDiskKey struct {
	BackupKey
	Disk int `json:"disk"`
}

// String returns INSTANCE/BACKUP/disk-N.
func (k BackupDiskKey) String() string { return fmt.Sprintf("%s/disk-%d", k.BackupKey, k.Disk) }

// Check returns ErrInvalid for a key that cannot be in a place.
func (k BackupDiskKey) Check() error {
	if k.Disk < 0 || k.Disk >= MaxBackupDisks {
		return Errorf(ErrInvalid, "disk %d of a backup: expected 0 to %d", k.Disk, MaxBackupDisks-1)
	}
	return k.BackupKey.Check()
}

// BackupDisk is one disk of a backup.
type BackupDisk struct {
	Disk int `json:"disk"`
	// Size is the virtual size.
	Size Bytes `json:"size"`
	// Chunks is how many chunks the disk has that are not all zeros. New of them were not in the place before.
	Chunks int `json:"chunks"`
	New    int `json:"new"`
	// Read is how much was read of the volume, and Stored how much the new chunks take in the place.
	Read   Bytes `json:"read"`
	Stored Bytes `json:"stored"`
	// Index is the SHA-256 digest of the disk's index.
	Index Digest `json:"index"`
}

// BackupHead is what everyone who can read a place sees of a backup.
type BackupHead struct {
	BackupKey
	// Time is the moment at which the disks had the content of the backup.
	Time time.Time `json:"time"`
	// Name and Project are those that the instance had.
	Name    string `json:"name"`
	Project string `json:"project,omitempty"`
	// Size is the virtual size of all disks, and Stored how much the backup has added to the place.
	Size   Bytes `json:"size"`
	Stored Bytes `json:"stored"`
	// Encrypted reports whether the rest can only be read with the place's Identity.
	Encrypted bool `json:"encrypted,omitempty"`
}

// BackupManifest describes a backup so that another installation can restore it.
type BackupManifest struct {
	BackupHead
	// Installation is the name of the installation that made it, and Node the node.
	Installation string `json:"installation"`
	Node         string `json:"node"`
	// Config is the configuration of the instance, as who makes backups and restores them defines it.
	Config json.RawMessage `json:"config"`
	Disks  []BackupDisk    `json:"disks"`
}

// Check returns ErrInvalid for a manifest that cannot be in a place.
func (m BackupManifest) Check() error {
	if err := m.BackupKey.Check(); err != nil {
		return err
	}
	if m.Time.IsZero() {
		return Errorf(ErrInvalid, "backup %s has no time", m.BackupKey)
	}
	seen := map[int]bool{}
	for _, d := range m.Disks {
		if err := (BackupDiskKey{m.BackupKey, d.Disk}).Check(); err != nil {
			return err
		}
		if seen[d.Disk] {
			return Errorf(ErrInvalid, "backup %s has disk %d twice", m.BackupKey, d.Disk)
		}
		seen[d.Disk] = true
	}
	return nil
}

// BackupConfig is the configuration of an instance in the manifest of its backup, as far as another instance can have it.
type BackupConfig struct {
	VCPUs      int               `json:"vcpus"`
	Memory     Bytes             `json:"memory"`
	System     System            `json:"system"`
	Profile    string            `json:"profile,omitempty"`
	Image      string            `json:"image,omitempty"`
	Datasource Datasource        `json:"datasource"`
	Metadata   MetadataOptions   `json:"metadata"`
	UserData   []byte            `json:"user_data,omitempty"`
	VendorData []byte            `json:"vendor_data,omitempty"`
	SSHKeys    []string          `json:"ssh_keys,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
	Notes      string            `json:"notes,omitempty"`
	NICs       []NIC             `json:"nics"`
	// Volumes are its disks, in the order of those of the backup. The last of them were volumes that were attached: Attached are the names.
	Volumes  []Volume `json:"volumes"`
	Attached []string `json:"attached,omitempty"`
}

// BackupConfigOf returns the configuration of an instance that firmware starts.
func BackupConfigOf(i Instance, firmware Firmware) BackupConfig {
	c := BackupConfig{VCPUs: i.VCPUs, Memory: i.Memory, System: i.System, Profile: i.Profile, Image: i.Image, Datasource: i.Datasource,
		Metadata: i.Metadata, UserData: i.UserData, VendorData: i.VendorData, SSHKeys: i.SSHKeys, Tags: i.Tags, Notes: i.Notes,
		NICs: i.NICs, Volumes: i.Volumes}
	c.System.Firmware = firmware
	return c
}

// BackupUnread returns why a target cannot be read, as the caller may see it: a tenant does not learn where the target
// is, but learns that a key is missing.
func BackupUnread(ctx context.Context, target string, err error) error {
	if !IsTenant(ctx) || errors.Is(err, ErrInvalid) {
		return err
	}
	return Errorf(ErrUnavailable, "backup target %q cannot be read now", target)
}

// BackupList is what is in a place.
type BackupList struct {
	// Backups are sorted by instance, and then by time.
	Backups []BackupHead `json:"backups"`
	// Damaged are the backups whose manifests cannot be read.
	Damaged []BackupProblem `json:"damaged,omitempty"`
}

// BackupProblem is what is wrong with a backup.
type BackupProblem struct {
	BackupKey
	Problem string `json:"problem"`
}

// BackupCheck is what a verification has found.
type BackupCheck struct {
	// Backups and Chunks are how many were looked at. A chunk of several backups counts once.
	Backups int `json:"backups"`
	Chunks  int `json:"chunks"`
	// Read is how much was read of the place.
	Read Bytes `json:"read"`
	// Problems are what is missing or damaged, with the object's name. There may be several for one backup.
	Problems []BackupProblem `json:"problems,omitempty"`
}

// BackupSwept is what a sweep has done.
type BackupSwept struct {
	// Kept and Removed are numbers of chunks; Freed is the size of those that were removed.
	Kept    int   `json:"kept"`
	Removed int   `json:"removed"`
	Freed   Bytes `json:"freed"`
	// Young is how many chunks no backup names, and that are too young to be removed.
	Young int `json:"young"`
	// Refused is how many the place did not let it remove, for example because they are locked, and Refusal why, for one of them.
	Refused int    `json:"refused,omitempty"`
	Refusal string `json:"refusal,omitempty"`
}
