package drivertest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"

	diff "github.com/google/go-cmp/cmp"
)

// mapCases are the cases of TestPool that map volumes.
var mapCases = []poolCase{
	{"map", testMap},
	{"map refused", testMapRefused},
	{"mapped volume is in use", testMappedInUse},
	{"map and unmap, ended context", testEndedMap},
}

// mappedVolumes checks the names of an instance's mapped volumes.
func mappedVolumes(t *testing.T, p worker.Mapper, id seedbed.InstanceID, want ...string) {
	t.Helper()
	if d := diff.Diff(want, p.MappedVolumes(id)); d != "" {
		t.Fatalf("mapped volumes (-want +got):\n%s", d)
	}
}

// onDevice calls do with a device, and waits until the result is on the volume.
func onDevice(t *testing.T, device string, do func(*os.File) error) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	ok(t, "use "+device, errors.Join(do(f), f.Sync(), f.Close()))
}

func testMap(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	_, v, _ := cloned(t, p)
	mappedVolumes(t, p, v.Instance)
	device, err := p.MapVolume(ctx, job, v.Name, v.Instance)
	ok(t, "map", err)
	again, err := p.MapVolume(ctx, job, v.Name, v.Instance)
	if err != nil || again != device || device == "" {
		t.Errorf("map again: %q, %v; want %q", again, err, device)
	}
	mappedVolumes(t, p, v.Instance, v.Name)
	_, err = p.MapVolume(ctx, seedbed.NewJobID(), v.Name, v.Instance)
	is(t, "map for another job", err, seedbed.ErrInUse)
	is(t, "unmap another instance's", p.UnmapVolume(ctx, v.Name, seedbed.NewInstanceID()), seedbed.ErrConflict)
	mappedVolumes(t, p, v.Instance, v.Name)

	text := bytes.Repeat([]byte("written through the device. "), 4096)
	if d.Devices {
		onDevice(t, device, func(f *os.File) error {
			was := make([]byte, 8)
			if _, err := f.ReadAt(was, 1<<20); err != nil || string(was) != "seedbed " {
				t.Errorf("the image's data: %q, %v", was, err)
			}
			_, err := f.WriteAt(text, 6<<20) // beyond the image, in the space that the volume has in addition
			return err
		})
	}
	for range 2 {
		ok(t, "unmap", p.UnmapVolume(ctx, v.Name, v.Instance))
	}
	mappedVolumes(t, p, v.Instance)
	second, err := p.MapVolume(ctx, seedbed.NewJobID(), v.Name, v.Instance)
	ok(t, "map for another job once it is unmapped", err)
	if d.Devices {
		onDevice(t, second, func(f *os.File) error {
			got := make([]byte, len(text))
			if _, err := f.ReadAt(got, 6<<20); err != nil || !bytes.Equal(got, text) {
				t.Errorf("what was written is not in the volume (%v)", err)
			}
			end, err := f.Seek(0, 2)
			if want := int64(8 << 20); end != want {
				t.Errorf("the device has %d bytes; want %d", end, want)
			}
			return err
		})
	}
	ok(t, "unmap", p.UnmapVolume(ctx, v.Name, v.Instance))
	ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
	ok(t, "unmap an absent volume", p.UnmapVolume(ctx, v.Name, v.Instance))
}

func testMapRefused(t *testing.T, d PoolDriver, p worker.Pool) {
	_, v, _ := cloned(t, p)
	foreign := clone(8 * seedbed.MiB)
	untouched := d.Foreign(t, p, foreign.Name)
	for _, c := range []struct {
		name   string
		volume string
		id     seedbed.InstanceID
		want   error
	}{
		{"absent volume", clone(0).Name, v.Instance, seedbed.ErrNotFound},
		{"other instance", v.Name, seedbed.NewInstanceID(), seedbed.ErrConflict},
		{"no instance", v.Name, "", seedbed.ErrConflict},
		{"volume without the tag", foreign.Name, foreign.Instance, seedbed.ErrConflict},
	} {
		_, err := p.MapVolume(t.Context(), seedbed.NewJobID(), c.volume, c.id)
		is(t, c.name, err, c.want)
		mappedVolumes(t, p, c.id)
	}
	if !untouched() {
		t.Error("the foreign volume was changed")
	}
}

func testMappedInUse(t *testing.T, d PoolDriver, _ worker.Pool) {
	p := d.Keep(t, time.Hour)
	ctx := t.Context()
	_, v, _ := cloned(t, p)
	_, err := p.MapVolume(ctx, seedbed.NewJobID(), v.Name, v.Instance)
	ok(t, "map", err)
	is(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance), seedbed.ErrInUse)
	_, err = p.TrashVolume(ctx, v.Name, v.Instance)
	is(t, "trash", err, seedbed.ErrInUse)
	_, err = p.FlattenVolume(ctx, v.Name, v.Instance, nil)
	is(t, "flatten", err, seedbed.ErrInUse)
	_, err = p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, "s"))
	if err == nil { // otherwise the driver takes none of a volume in use
		is(t, "restore", p.RestoreSnapshot(ctx, snapshotOf(v, "s")), seedbed.ErrInUse)
		ok(t, "remove the snapshot", p.RemoveSnapshot(ctx, snapshotOf(v, "s"), ""))
	}
	trashHas(t, p)
	ok(t, "unmap", p.UnmapVolume(ctx, v.Name, v.Instance))
	_, err = p.FlattenVolume(ctx, v.Name, v.Instance, nil)
	ok(t, "flatten once it is unmapped", err)
	item, err := p.TrashVolume(ctx, v.Name, v.Instance)
	if err != nil || item == nil {
		t.Fatalf("trash once it is unmapped: %v, %v", item, err)
	}
	_, err = p.MapVolume(ctx, seedbed.NewJobID(), v.Name, v.Instance)
	is(t, "map what is in the trash", err, seedbed.ErrNotFound)
}

func testEndedMap(t *testing.T, _ PoolDriver, p worker.Pool) {
	_, v, _ := cloned(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.MapVolume(ctx, seedbed.NewJobID(), v.Name, v.Instance)
	is(t, "map", err, context.Canceled)
	mappedVolumes(t, p, v.Instance)
	_, err = p.MapVolume(t.Context(), seedbed.NewJobID(), v.Name, v.Instance)
	ok(t, "map", err)
	is(t, "unmap", p.UnmapVolume(ctx, v.Name, v.Instance), context.Canceled)
	mappedVolumes(t, p, v.Instance, v.Name)
	ok(t, "unmap", p.UnmapVolume(t.Context(), v.Name, v.Instance))
}
