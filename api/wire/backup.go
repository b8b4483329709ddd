package wire

import (
	"encoding/json"

	"seedbed"
)

// BackupTarget is a target of backups as it is shown: without its secrets.
type BackupTarget struct {
	seedbed.BackupTarget
	// HasIdentity reports whether the identity of an encrypted target is known, without which its backups cannot be restored or verified.
	HasIdentity bool `json:"has_identity"`
}

// BackupTargetCheck says that a target can be reached and written to.
type BackupTargetCheck struct {
	ChunkSize seedbed.Bytes `json:"chunk_size"`
	// Recipient is the age public key for which it is encrypted; empty if it is not.
	Recipient string `json:"recipient,omitempty"`
}

// BackupRequest asks for a backup of an instance.
type BackupRequest struct {
	// Target is the name of the target.
	Target string `json:"target"`
	// Full reads the disks as a whole, whatever has changed since the last backup.
	Full bool `json:"full,omitempty"`
	// Exclude are the names of attached volumes that are left out.
	Exclude []string `json:"exclude,omitempty"`
	// DryRun only reports what would be done.
	DryRun bool `json:"dry_run,omitempty"`
}

// BackupRestoreRequest asks for an instance that is made of a backup.
type BackupRestoreRequest struct {
	seedbed.BackupRestoreRequest
	// DryRun only reports what would be made.
	DryRun bool `json:"dry_run,omitempty"`
}

// Backup is a backup in a list.
type Backup struct {
	Target string `json:"target"`
	seedbed.BackupHead
	// Problem is why it cannot be read; empty if nothing is known to be wrong.
	Problem string `json:"problem,omitempty"`
}

// BackupDetails is one backup, with what is needed to restore it.
type BackupDetails struct {
	Backup
	// Installation tells the installation that made it from others.
	Installation string `json:"installation"`
	// Node is the node that made it; empty for a caller that may not see nodes.
	Node    string               `json:"node,omitempty"`
	VCPUs   int                  `json:"vcpus"`
	Memory  seedbed.Bytes        `json:"memory"`
	Profile string               `json:"profile,omitempty"`
	Image   string               `json:"image,omitempty"`
	Tags    map[string]string    `json:"tags,omitempty"`
	Notes   string               `json:"notes,omitempty"`
	NICs    []BackupNIC          `json:"nics"`
	Disks   []BackupDiskInTarget `json:"disks"`
}

// BackupNIC is a NIC of an instance in a backup.
type BackupNIC struct {
	Index   int         `json:"index"`
	Network string      `json:"network"`
	MAC     seedbed.MAC `json:"mac"`
}

// BackupDiskInTarget is a disk in a backup.
type BackupDiskInTarget struct {
	seedbed.BackupDisk
	// Pool is the pool that it was in.
	Pool string `json:"pool"`
	// Volume is the name that it had as a volume that was attached; empty for a disk that the instance was made with.
	Volume string `json:"volume,omitempty"`
}

// BackupScheduleRequest makes a schedule of backups.
type BackupScheduleRequest struct {
	Name string `json:"name"`
	// The rest is as in seedbed.Schedule.
	Target    string   `json:"target"`
	Cron      string   `json:"cron"`
	Instances []string `json:"instances,omitempty"`
	Profile   string   `json:"profile,omitempty"`
	Tag       string   `json:"tag,omitempty"`
	Exclude   []string `json:"exclude,omitempty"`
}

// SnapshotScheduleRequest makes a schedule of snapshots.
type SnapshotScheduleRequest struct {
	Name string `json:"name"`
	// The rest is as in seedbed.Schedule.
	Cron      string            `json:"cron"`
	Instances []string          `json:"instances,omitempty"`
	Profile   string            `json:"profile,omitempty"`
	Tag       string            `json:"tag,omitempty"`
	Keep      seedbed.Retention `json:"keep,omitzero"`
	Freeze    seedbed.Freeze    `json:"freeze,omitempty"`
}

// DetailsOf returns a backup with what its manifest says. It returns ErrInvalid for a manifest with a configuration that is not known.
func DetailsOf(b Backup, m seedbed.BackupManifest) (d BackupDetails, err error) {
	var c seedbed.BackupConfig
	if err := json.Unmarshal(m.Config, &c); err != nil || len(c.Volumes) != len(m.Disks) {
		return d, seedbed.Errorf(seedbed.ErrInvalid, "backup %s has no configuration that this release knows: a newer one may have made it",
			m.Backup)
	}
	d = BackupDetails{Backup: b, Installation: m.Installation, Node: m.Node, VCPUs: c.VCPUs, Memory: c.Memory, Profile: c.Profile,
		Image: c.Image, Tags: c.Tags, Notes: c.Notes, NICs: []BackupNIC{}, Disks: []BackupDiskInTarget{}}
	for _, n := range c.NICs {
		d.NICs = append(d.NICs, BackupNIC{Index: n.Index, Network: n.Network, MAC: n.MAC})
	}
	for i, disk := range m.Disks {
		shown := BackupDiskInTarget{BackupDisk: disk, Pool: c.Volumes[i].Pool}
		if at := i - (len(c.Volumes) - len(c.Attached)); at >= 0 && len(c.Attached) <= len(c.Volumes) {
			shown.Volume = c.Attached[at]
		}
		d.Disks = append(d.Disks, shown)
	}
	return d, nil
}
