//go:build integration && libvirt

package libvirt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	lv "libvirt.org/go/libvirt"

	"seedbed"
	"seedbed/provision/dir"
	"seedbed/provision/effects"
	"seedbed/provision/worker"
)

// TestSnapshotsWhileTheGuestRuns has a real QEMU take snapshots of two disks in a directory pool while both are written to, reads them, and
// removes them. They are of one moment: the first disk is ahead of the second by one write at the most.
func TestSnapshotsWhileTheGuestRuns(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	pool, err := dir.Open(dir.Config{Name: "p", Path: filepath.Join(ours.dir, fmt.Sprintf("pool-%d", sequence.Add(1))),
		Reserve: seedbed.MiB, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must("open the pool", err)
	defer pool.Close()
	d := open(t, system)
	spec := newSpec(t, base, seedbed.Disk{})
	var points []seedbed.SnapshotSpec
	for i := range 2 {
		v := seedbed.VolumeSpec{Pool: "p", Name: fmt.Sprintf("v%d", i), Instance: spec.ID, Size: 64 * seedbed.MiB}
		made, err := pool.CloneVolume(t.Context(), spec.Job, v)
		must("make a volume", err)
		spec.Disks = append(spec.Disks, made.Disk)
		points = append(points, seedbed.SnapshotSpec{Pool: "p", Volume: v.Name, Instance: spec.ID, Name: "s"})
	}
	job, h := seedbed.NewJobID(), effects.Handlers{}
	worker.HandleOpenSnapshots(h, d, slog.New(slog.NewTextHandler(t.Output(), nil)),
		func(string, seedbed.InstanceID) (worker.Pool, error) { return pool, nil })
	call := seedbed.Call{Job: job, Epoch: 1}
	take := func() error {
		return effects.SnapshotOpen.Do(t.Context(), direct{h}, call, effects.OpenSnapshots{Domain: spec.ID, Snapshots: points})
	}
	drop := func(p seedbed.SnapshotSpec) error {
		return effects.RemoveSnapshot.Do(t.Context(), direct{h}, call, effects.SnapshotRef{SnapshotSpec: p, Of: job})
	}
	must("define", d.DefineDomain(t.Context(), spec))
	defer remove(t, d, spec.ID)
	if err := take(); err == nil || !strings.Contains(err.Error(), "is off") {
		t.Errorf("while it is off: %v", err)
	}
	must("start", d.StartDomain(t.Context(), spec.ID))
	dom := lookup(t, base, spec.ID)

	// Write n is of the pattern n, to the one disk and then to the other. Another goroutine writes while the snapshots are taken.
	write := func(n int) error {
		for i := range 2 {
			answer, err := dom.QemuMonitorCommand(fmt.Sprintf("qemu-io -d /machine/peripheral/virtio-disk%d/virtio-backend \"write -P %d %dk 64k\"",
				i, n, n*64), lv.DOMAIN_QEMU_MONITOR_COMMAND_HMP)
			if err != nil || strings.TrimSpace(answer) != "" { // what it has written is told to QEMU's own output
				return fmt.Errorf("write %d to disk %d: %s, %w", n, i, answer, err)
			}
		}
		return nil
	}
	began, stop, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 1; n < 250; n++ {
			if err := write(n); err != nil {
				written <- err
				return
			}
			if n == 8 {
				close(began)
			}
			select {
			case <-stop:
				written <- nil
				return
			default:
			}
		}
		written <- nil
	}()
	<-began
	must("take the snapshots", take())
	must("take them again", take())
	close(stop)
	must("write", <-written)
	must("write since", write(250))
	var last []int
	for _, p := range points {
		all, err := pool.Snapshots(t.Context(), p.Volume, p.Instance)
		if err != nil || len(all) != 1 || all[0].Name != "s" || all[0].Job != job {
			t.Fatalf("snapshots of %s: %+v, %v", p.Volume, all, err)
		}
		src, err := pool.OpenSnapshot(t.Context(), p, "")
		must("read the snapshot", err)
		n, block := 0, make([]byte, 64<<10)
		for {
			must("read", src.Read(t.Context(), block, int64(n+1)*64<<10))
			if !bytes.Equal(block, bytes.Repeat([]byte{byte(n + 1)}, len(block))) {
				break
			}
			n++
		}
		must("read the end", src.Read(t.Context(), block, 250*64<<10))
		if n < 8 || bytes.Contains(block, []byte{250}) {
			t.Errorf("%s has %d writes, and at the end %d", p.Volume, n, block[0])
		}
		last = append(last, n)
		must("close", src.Close())
	}
	if ahead := last[0] - last[1]; ahead < 0 || ahead > 1 {
		t.Errorf("the disks have %d writes: they are of two moments", last)
	}
	other := seedbed.SnapshotSpec{Pool: "p", Volume: "v0", Instance: spec.ID, Name: "t"}
	if _, err := pool.CreateSnapshot(t.Context(), job, other); err == nil {
		t.Error("another process has changed a file that the guest has open")
	}

	// One that cannot be taken of all disks is taken of none: the other disk has one of that name that is not in its record.
	must("a snapshot past the pool", d.SnapshotDisks(t.Context(), spec.ID, []seedbed.DiskSnapshot{{Disk: spec.Disks[1], Name: "u"}}))
	err = d.SnapshotDisks(t.Context(), spec.ID, []seedbed.DiskSnapshot{{Disk: spec.Disks[0], Name: "u"}, {Disk: spec.Disks[1], Name: "u"}})
	if err == nil {
		t.Error("a name that exists is taken")
	}
	must("remove it", d.DropDiskSnapshot(t.Context(), spec.ID, seedbed.DiskSnapshot{Disk: spec.Disks[1], Name: "u"}))
	must("remove what is not there", d.DropDiskSnapshot(t.Context(), spec.ID, seedbed.DiskSnapshot{Disk: spec.Disks[0], Name: "u"}))

	must("remove the first", drop(points[0]))
	must("grow a disk with a snapshot", d.ResizeDisk(t.Context(), spec.ID, spec.Disks[1], 128*seedbed.MiB))
	must("write to it", write(3))
	must("switch off", d.DestroyDomain(t.Context(), spec.ID))
	must("remove the second once it is off", drop(points[1]))
	for _, k := range spec.Disks {
		command(t, "qemu-img", "check", "-q", k.Source)
	}
}

// direct carries effects out in this process.
type direct struct{ h effects.Handlers }

// Do implements effects.Worker.
func (d direct) Do(ctx context.Context, x effects.Exchange) (json.RawMessage, error) {
	args, err := json.Marshal(x.Args)
	if err != nil {
		return nil, err
	}
	return d.h[x.Effect].Run(ctx, x.Call, args, x.Listener)
}

// Supersede implements effects.Worker.
func (d direct) Supersede(context.Context, seedbed.Call) error { return nil }
