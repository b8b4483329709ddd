package effects

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"seedbed"
)

// recorder is a worker that records the request, and refuses it.
type recorder struct{ name, args string }

var errRecorded = errors.New("recorded")

func (r *recorder) Do(_ context.Context, x Exchange) (json.RawMessage, error) {
	r.name, r.args = x.Effect, ""
	if x.Args != nil {
		b, err := json.Marshal(x.Args)
		if err != nil {
			return nil, err
		}
		r.args = string(b)
	}
	return nil, errRecorded
}

func (r *recorder) Supersede(context.Context, seedbed.Call) error { return errRecorded }

// TestWire checks names and arguments against those of workers of version 0.1.0.
func TestWire(t *testing.T) {
	t.Parallel()
	var r recorder
	ctx, call := t.Context(), seedbed.Call{Job: "j"}
	drop := func(_ any, err error) error { return err }
	volume, domain, trash := VolumeRef{"p", "v", "i"}, DomainRef{"i"}, TrashRef{Pool: "p", ID: "t"}
	for _, tt := range []struct {
		do         func() error
		name, args string
	}{
		{func() error { return RemoveVolume.Do(ctx, &r, call, volume) }, "remove-volume", `{"pool":"p","name":"v","instance":"i"}`},
		{func() error { return drop(ResizeVolume.Do(ctx, &r, call, VolumeSize{"p", "v", "i", 5, ""})) }, "resize-volume",
			`{"pool":"p","name":"v","instance":"i","size":"5"}`},
		{func() error { return drop(ResizeVolume.Do(ctx, &r, call, VolumeSize{"p", "v", "i", 5, "d"})) }, "resize-volume",
			`{"pool":"p","name":"v","instance":"i","size":"5","domain":"d"}`},
		{func() error { return drop(FlattenVolume.Do(ctx, &r, call, volume)) }, "flatten-volume", `{"pool":"p","name":"v","instance":"i"}`},
		{func() error { return StopFlatten.Do(ctx, &r, call, volume) }, "stop-flatten", `{"pool":"p","name":"v","instance":"i"}`},
		{func() error {
			return RestoreSnapshot.Do(ctx, &r, call, seedbed.SnapshotSpec{Pool: "p", Volume: "v", Instance: "i", Name: "s"})
		},
			"restore-snapshot", `{"pool":"p","volume":"v","instance":"i","name":"s"}`},
		{func() error {
			return SnapshotOpen.Do(ctx, &r, call, OpenSnapshots{Domain: "d", Snapshots: []seedbed.SnapshotSpec{
				{Pool: "p", Volume: "v", Instance: "i", Name: "s", Consistency: seedbed.ConsistencyFrozen}}})
		}, "snapshot-open", `{"domain":"d","snapshots":[{"pool":"p","volume":"v","instance":"i","name":"s","consistency":"frozen"}]}`},
		{func() error { return drop(Snapshots.Ask(ctx, &r, volume)) }, "snapshots", `{"pool":"p","name":"v","instance":"i"}`},
		{func() error { return drop(TrashVolume.Do(ctx, &r, call, volume)) }, "trash-volume", `{"pool":"p","name":"v","instance":"i"}`},
		{func() error { return drop(Trash.Ask(ctx, &r, None{})) }, "trash", ""},
		{func() error { return drop(RestoreVolume.Ask(ctx, &r, trash)) }, "restore-volume", `{"pool":"p","id":"t"}`},
		{func() error { return drop(DiscardVolume.Ask(ctx, &r, ImageRef{Pool: "p", Name: "v"})) }, "discard-volume", `{"pool":"p","name":"v"}`},
		{func() error { return drop(PurgeVolume.Ask(ctx, &r, TrashRef{"p", "t", true})) }, "purge-volume", `{"pool":"p","id":"t","early":true}`},
		{func() error { return RemoveImage.Do(ctx, &r, call, ImageRef{"p", "n", "o"}) }, "remove-image", `{"pool":"p","name":"n","of":"o"}`},
		{func() error {
			return drop(CheckImport.Ask(ctx, &r, seedbed.ImageSpec{Pool: "p", Name: "n", Path: "/f"}))
		}, "check-import",
			`{"pool":"p","name":"n","path":"/f"}`},
		{func() error {
			v := seedbed.VolumeSpec{Pool: "p", Name: "v", Instance: "i", Size: 5}
			return drop(FillVolume.Do(ctx, &r, call, UploadedVolume{v, "u", "raw"}))
		}, "fill-volume", `{"pool":"p","name":"v","instance":"i","size":"5","upload":"u","format":"raw"}`},
		{func() error { return drop(DropUpload.Ask(ctx, &r, UploadRef{"p", "u"})) }, "drop-upload", `{"pool":"p","id":"u"}`},
		{func() error {
			return SeedDomain.Do(ctx, &r, call, seedbed.Seed{ID: "i", Files: []seedbed.SeedFile{{Name: "meta-data", Data: []byte("x")}}})
		}, "seed-domain", `{"id":"i","files":[{"name":"meta-data","data":"eA=="}]}`},
		{func() error { return StartDomain.Do(ctx, &r, call, domain) }, "start-domain", `{"id":"i"}`},
		{func() error { return ShutdownDomain.Do(ctx, &r, call, domain) }, "shutdown-domain", `{"id":"i"}`},
		{func() error { return DestroyDomain.Do(ctx, &r, call, domain) }, "destroy-domain", `{"id":"i"}`},
		{func() error { return UndefineDomain.Do(ctx, &r, call, domain) }, "undefine-domain", `{"id":"i"}`},
		{func() error { return UndefineKept.Do(ctx, &r, call, domain) }, "undefine-domain-kept", `{"id":"i"}`},
		{func() error { return ResizeDomain.Do(ctx, &r, call, DomainSize{"i", 2, 0}) }, "resize-domain", `{"id":"i","vcpus":2}`},
		{func() error { return RenameDomain.Do(ctx, &r, call, NamedDomain{"i", "n"}) }, "rename-domain", `{"id":"i","name":"n"}`},
		{func() error { return StopMigration.Do(ctx, &r, call, domain) }, "stop-migration", `{"id":"i"}`},
		{func() error { return drop(CopyDomain.Ask(ctx, &r, domain)) }, "copy-domain", `{"id":"i"}`},
		{func() error {
			c := seedbed.DomainCopy{ID: "i", XML: "<x/>", Variables: []byte("v"), Console: []byte("x")}
			return ReceiveDomain.Do(ctx, &r, call, c)
		}, "receive-domain", `{"id":"i","xml":"\u003cx/\u003e","variables":"dg==","console":"eA=="}`},
		{func() error {
			to := seedbed.MigrationTarget{URI: "qemu+tls://hv2/system", Data: "tcp://10.0.0.2", TLS: true}
			return drop(MigrateDomain.Do(ctx, &r, call, seedbed.Migration{ID: "i", MigrationTarget: to}))
		}, "migrate-domain", `{"id":"i","uri":"qemu+tls://hv2/system","data":"tcp://10.0.0.2","tls":true}`},
		{func() error {
			from := seedbed.BootCDROM
			return drop(ChangeDomain.Do(ctx, &r, call, seedbed.DomainChange{ID: "i", Drive: &seedbed.CDROMDrive{}, BootFrom: &from}))
		}, "change-domain", `{"id":"i","drive":{},"boot_from":"cdrom"}`},
		{func() error { return drop(ImageDisk.Ask(ctx, &r, ImageRef{Pool: "p", Name: "i"})) }, "image-disk", `{"pool":"p","name":"i"}`},
		{func() error {
			return AttachDisk.Do(ctx, &r, call, DiskAttachment{"i", volume, "0123", "virtio", "vdb", seedbed.IOLimits{}})
		}, "attach-disk",
			`{"id":"i","volume":{"pool":"p","name":"v","instance":"i"},"serial":"0123","bus":"virtio","device":"vdb"}`},
		{func() error {
			return LimitDisk.Do(ctx, &r, call, DiskLimits{DiskSerial{"i", "0123"}, seedbed.IOLimits{IOPS: 500, ReadBandwidth: seedbed.MiB}})
		}, "limit-disk", `{"id":"i","serial":"0123","limits":{"iops":500,"read_bandwidth":"1MiB"}}`},
		{func() error { return DetachDisk.Do(ctx, &r, call, DiskSerial{"i", "0123"}) }, "detach-disk", `{"id":"i","serial":"0123"}`},
		{func() error {
			nic := seedbed.DomainNIC{Tap: "sb1", MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}, Bridge: "sb0"}
			return AttachNIC.Do(ctx, &r, call, NICAttachment{"i", nic})
		}, "attach-nic", `{"id":"i","nic":{"tap":"sb1","mac":"52:54:00:00:00:01","bridge":"sb0"}}`},
		{func() error { return DetachNIC.Do(ctx, &r, call, NICRef{"i", seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}}) }, "detach-nic",
			`{"id":"i","mac":"52:54:00:00:00:01"}`},
		{func() error { return drop(Volume.Ask(ctx, &r, volume)) }, "volume", `{"pool":"p","name":"v","instance":"i"}`},
		{func() error { return drop(DomainState.Ask(ctx, &r, domain)) }, "domain-state", `{"id":"i"}`},
		{func() error { return drop(GuestExec.Ask(ctx, &r, GuestCommand{"i", seedbed.GuestCommand{Path: "p"}})) }, "guest-exec",
			`{"id":"i","command":{"path":"p"}}`},
		{func() error { return drop(GuestWait.Ask(ctx, &r, GuestProcess{"i", 7})) }, "guest-wait", `{"id":"i","process":7}`},
		{func() error { return FreezeGuest.Do(ctx, &r, call, domain) }, "freeze-guest", `{"id":"i"}`},
		{func() error { return drop(ThawGuest.Do(ctx, &r, call, domain)) }, "thaw-guest", `{"id":"i"}`},
		{func() error { return drop(Screenshot.Ask(ctx, &r, DomainRef{"i"})) }, "screenshot", `{"id":"i"}`},
		{func() error { return drop(Console.Ask(ctx, &r, ConsoleTail{"i", 9})) }, "console", `{"id":"i","tail":"9"}`},
		{func() error { return drop(DomainXML.Ask(ctx, &r, DomainRefs{[]seedbed.InstanceID{"i"}})) }, "domain-xml", `{"ids":["i"]}`},
		{func() error { return Watch.Follow(ctx, &r, nil) }, "watch", ""},
		{func() error { return drop(ForeignDomains.Ask(ctx, &r, None{})) }, "foreign-domains", ""},
		{func() error { return drop(ForeignDomain.Ask(ctx, &r, DomainName{"n"})) }, "foreign-domain", `{"name":"n"}`},
		{func() error { return drop(Inventory.Ask(ctx, &r, None{})) }, "inventory", ""},
		{func() error { return drop(Health.Ask(ctx, &r, None{})) }, "health", ""},
		{func() error {
			return drop(FenceNode.Do(ctx, &r, call, seedbed.FenceCall{Agent: "a", Options: map[string]string{"ip": "x"}}))
		}, "fence-node", `{"agent":"a","options":{"ip":"x"}}`},
		{func() error {
			return drop(FenceStatus.Ask(ctx, &r, seedbed.FenceCall{Agent: "a", Secrets: map[string]string{"password": "x"}}))
		}, "fence-status", `{"agent":"a","secrets":{"password":"x"}}`},
		{func() error { return drop(Admit.Ask(ctx, &r, Admission{3, []seedbed.InstanceID{"i"}})) }, "admit",
			`{"incarnation":3,"elsewhere":["i"]}`},
		{func() error { return drop(Report.Ask(ctx, &r, None{})) }, "report", ""},
		{func() error { return CloseScript.Do(ctx, &r, call, domain) }, "close-script", `{"id":"i"}`},
		{func() error { return drop(ScriptHost.Ask(ctx, &r, ToolNames{[]string{"x"}})) }, "script-host", `{"tools":["x"]}`},
	} {
		if err := tt.do(); !errors.Is(err, errRecorded) || r.name != tt.name || r.args != tt.args {
			t.Errorf("%s: got %s %s, %v", tt.name, r.name, r.args, err)
		}
	}
	names := map[string]string{
		CloneVolume.name: "clone-volume", CopyVolume.name: "copy-volume",
		CreateSnapshot.name: "create-snapshot", RemoveSnapshot.name: "remove-snapshot",
		AdoptVolume.name: "adopt-volume", ReleaseVolume.name: "release-volume", ImportImage.name: "import-image",
		DefineDomain.name: "define-domain", AdoptDomain.name: "adopt-domain", ReleaseDomain.name: "release-domain",
		RunScript.name: "run-script", CheckDomain.name: "check-domain", RunHook.name: "run-hook",
	}
	for got, want := range names {
		if got != want {
			t.Errorf("effect %s is called %s", want, got)
		}
	}
}

// TestBackupsOnTheWire checks names and arguments of the effects on backups.
func TestBackupsOnTheWire(t *testing.T) {
	t.Parallel()
	var r recorder
	ctx, call := t.Context(), seedbed.Call{Job: "j"}
	drop := func(_ any, err error) error { return err }
	place := seedbed.BackupPlace{Kind: "dir", Path: "/b", Identity: "AGE", NameKey: "k", Before: []string{"mount /b"}}
	key := seedbed.BackupKey{Instance: "i", Backup: "b"}
	const there = `{"kind":"dir","path":"/b","identity":"AGE","name_key":"k","before":["mount /b"]}`
	for _, tt := range []struct {
		do         func() error
		name, args string
	}{
		{func() error { return drop(CheckBackupPlace.Ask(ctx, &r, place)) }, "check-backup-place", there},
		{func() error {
			return drop(BackupVolume.Do(ctx, &r, call, VolumeBackup{
				Of: seedbed.SnapshotSpec{Pool: "p", Volume: "v", Instance: "i", Name: "s"}, Base: "r",
				BaseKey: &seedbed.BackupDiskKey{BackupKey: seedbed.BackupKey{Instance: "i", Backup: "a"}},
				Key:     seedbed.BackupDiskKey{BackupKey: key, Disk: 1}, Place: place,
			}))
		}, "backup-volume", `{"of":{"pool":"p","volume":"v","instance":"i","name":"s"},"base":"r",` +
			`"base_key":{"instance":"i","backup":"a","disk":0},"key":{"instance":"i","backup":"b","disk":1},"place":` + there + `}`},
		{func() error {
			return drop(RestoreBackup.Do(ctx, &r, call, BackupRestore{
				Volume: seedbed.VolumeSpec{Pool: "p", Name: "v", Instance: "i"}, Key: seedbed.BackupDiskKey{BackupKey: key}, Place: place,
			}))
		}, "restore-backup", `{"volume":{"pool":"p","name":"v","instance":"i","size":"0"},` +
			`"key":{"instance":"i","backup":"b","disk":0},"index":"` + seedbed.Digest{}.String() + `","place":` + there + `}`},
		{func() error {
			return drop(VerifyBackup.Do(ctx, &r, call, BackupSelection{Place: place, Keys: []seedbed.BackupKey{key}}))
		},
			"verify-backup", `{"place":` + there + `,"keys":[{"instance":"i","backup":"b"}]}`},
		{func() error { return WriteManifest.Do(ctx, &r, call, NewManifest{Place: place}) }, "write-manifest", `{"place":` + there +
			`,"manifest":{"instance":"","backup":"","time":"0001-01-01T00:00:00Z","name":"","size":"0","stored":"0","installation":"","node":"",` +
			`"config":null,"disks":null}}`},
		{func() error { return drop(ReadManifest.Ask(ctx, &r, BackupRef{place, key})) }, "read-manifest",
			`{"place":` + there + `,"key":{"instance":"i","backup":"b"}}`},
		{func() error { return drop(ListBackups.Ask(ctx, &r, BackupSelection{Place: place, Instance: "i"})) }, "list-backups",
			`{"place":` + there + `,"instance":"i"}`},
		{func() error { return drop(RemoveBackup.Do(ctx, &r, call, BackupRef{place, key})) }, "remove-backup",
			`{"place":` + there + `,"key":{"instance":"i","backup":"b"}}`},
		{func() error { return drop(SweepBackups.Do(ctx, &r, call, BackupSweep{place, MinBackupGrace})) }, "sweep-backups",
			`{"place":` + there + `,"grace":90000000000000}`},
	} {
		if err := tt.do(); !errors.Is(err, errRecorded) || r.name != tt.name || r.args != tt.args {
			t.Errorf("%s: got %s %s, %v", tt.name, r.name, r.args, err)
		}
	}
}
