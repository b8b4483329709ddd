package plans

import (
	"testing"

	"seedbed"
)

// TestBaseAmong checks what an increment is read against: for an attached volume it is the disk that it was in the earlier backup.
func TestBaseAmong(t *testing.T) {
	t.Parallel()
	const first, second, third = "20260101T000000Z-00000001", "20260102T000000Z-00000002", "20260103T000000Z-00000003"
	const nas = "backup-nas-"
	var before []seedbed.BackupHead
	for _, id := range []seedbed.BackupID{first, second, third} {
		before = append(before, seedbed.BackupHead{BackupKey: seedbed.BackupKey{Instance: "i", Backup: id}})
	}
	job := seedbed.BackupJob{Target: "nas", Backup: third}
	for name, tt := range map[string]struct {
		disk backupDisk
		full bool
		has  string
		want string // the snapshot; empty for none
		was  int    // the disk in the earlier backup
	}{
		"a disk":                   {backupDisk{disk: 1}, false, nas + second, nas + second, 1},
		"a full backup":            {backupDisk{disk: 1}, true, nas + second, "", 0},
		"its own snapshot":         {backupDisk{disk: 1}, false, nas + third, "", 0},
		"of another target":        {backupDisk{disk: 1}, false, "backup-other-" + second, "", 0},
		"attached":                 {backupDisk{disk: 1, attached: "v"}, false, nas + first + "-1", nas + first + "-1", 1},
		"attached, another before": {backupDisk{disk: 1, attached: "v"}, false, nas + second + "-3", nas + second + "-3", 3},
		"attached, was not before": {backupDisk{disk: 1, attached: "v"}, false, nas + second, "", 0},
	} {
		job.Full = tt.full
		base, key := baseAmong(before, tt.disk, job, func(name string) bool { return name == tt.has })
		if base != tt.want || (key != nil) != (tt.want != "") || key != nil && (key.Disk != tt.was || key.Backup == third) {
			t.Errorf("%s: read against %q, %+v; want %q of disk %d", name, base, key, tt.want, tt.was)
		}
		if base != "" && seedbed.SnapshotTarget(base) != "nas" {
			t.Errorf("%s: %s is not known as a snapshot of a backup", name, base)
		}
	}
}
