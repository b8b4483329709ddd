package fleet_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// A volume is backed up, listed, verified, restored, removed and swept over the wire.
func TestBackupMethods(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	at := seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: t.TempDir(), Before: []string{"mount /mnt"}}
	if err := second(effects.CheckBackupPlace.Ask(ctx, l, at)); !errors.Is(err, seedbed.ErrForbidden) {
		t.Errorf("a command that is not listed: %v", err)
	}
	at.Before = nil
	info, err := effects.CheckBackupPlace.Ask(ctx, l, at)
	if err != nil || !info.Made || info.ChunkSize != 4*seedbed.MiB {
		t.Fatalf("check: %+v, %v", info, err)
	}

	spec := volume()
	v, err := effects.CloneVolume.Do(ctx, l, call(1), spec)
	must(t, "make a volume", err)
	l.pool.Write(v.Name, "what the guest has written")
	point := seedbed.SnapshotSpec{Pool: "default", Volume: v.Name, Instance: v.Instance, Name: "s1"}
	must(t, "snapshot", second(effects.CreateSnapshot.Do(ctx, l, call(1), point)))
	l.pool.Write(v.Name, "what came later")

	key := seedbed.BackupKey{Instance: v.Instance, Backup: seedbed.NewBackupID()}
	disk := seedbed.BackupDiskKey{BackupKey: key}
	var last seedbed.Progress
	made, err := effects.BackupVolume.Do(ctx, l, call(1), effects.VolumeBackup{Of: point, Key: disk, Place: at},
		effects.OnProgress(func(p seedbed.Progress) { last = p }))
	if err != nil || made.Size != v.Size || made.Chunks != 1 || made.New != 1 || last.Percent() != 100 {
		t.Fatalf("back up: %+v, %v, progress %v", made, err, last)
	}
	if list, err := effects.ListBackups.Ask(ctx, l, effects.BackupSelection{Place: at}); err != nil || len(list.Backups) != 0 {
		t.Errorf("without a manifest: %+v, %v", list, err)
	}
	m := seedbed.BackupManifest{
		BackupHead: seedbed.BackupHead{BackupKey: key, Time: time.Now().UTC(), Name: "web", Size: v.Size, Stored: made.Stored},
		Config:     json.RawMessage(`{"vcpus":1}`), Disks: []seedbed.BackupDisk{made},
	}
	must(t, "end", effects.WriteManifest.Do(ctx, l, call(1), effects.NewManifest{Place: at, Manifest: m}))
	list, err := effects.ListBackups.Ask(ctx, l, effects.BackupSelection{Place: at, Instance: v.Instance})
	if err != nil || !slices.Equal(list.Backups, []seedbed.BackupHead{m.BackupHead}) {
		t.Errorf("list: %+v, %v", list, err)
	}
	ref := effects.BackupRef{Place: at, Key: key}
	read, err := effects.ReadManifest.Ask(ctx, l, ref)
	if err != nil || string(read.Config) != string(m.Config) || !slices.Equal(read.Disks, m.Disks) {
		t.Errorf("manifest: %+v, %v", read, err)
	}
	check, err := effects.VerifyBackup.Do(ctx, l, call(1), effects.BackupSelection{Place: at, Keys: []seedbed.BackupKey{key}})
	if err != nil || check.Backups != 1 || check.Chunks != 1 || check.Problems != nil {
		t.Errorf("verify: %+v, %v", check, err)
	}

	to := volume()
	to.Size = 0
	restore := effects.BackupRestore{Volume: to, Key: disk, Index: made.Index, Place: at}
	for range 2 { // a repeated stage finds its own work
		got, err := effects.RestoreBackup.Do(ctx, l, call(1), restore)
		if err != nil || got.Size != v.Size || l.pool.Read(to.Name) != "what the guest has written" {
			t.Errorf("restore: %+v, %v, %q", got, err, l.pool.Read(to.Name))
		}
	}
	small := restore
	small.Volume = volume()
	small.Volume.Size = v.Size - 512
	if err := second(effects.RestoreBackup.Do(ctx, l, call(1), small)); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("restore to a smaller volume: %v", err)
	}
	gone := restore
	gone.Volume, gone.Key.Disk = volume(), 1
	if err := second(effects.RestoreBackup.Do(ctx, l, call(1), gone)); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("restore a disk that is not there: %v", err)
	}

	removed, err := effects.RemoveBackup.Do(ctx, l, call(1), ref)
	if err != nil || removed.Refusal != "" {
		t.Errorf("remove: %+v, %v", removed, err)
	}
	if err := second(effects.ReadManifest.Ask(ctx, l, ref)); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("the manifest of a removed backup: %v", err)
	}
	swept, err := effects.SweepBackups.Do(ctx, l, call(1), effects.BackupSweep{Place: at, Grace: effects.MinBackupGrace})
	if err != nil || swept.Young != 1 || swept.Removed != 0 {
		t.Errorf("sweep: %+v, %v", swept, err)
	}
}
