//go:build integration

package provision

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/run"
	"seedbed/provision/cleanup"
	"seedbed/provision/dir"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/fleet"
	"seedbed/provision/image"
	"seedbed/provision/record"
	"seedbed/provision/worker"
)

// wired is a lab whose engine uses a real worker over its socket, with a real directory pool.
type wired struct {
	*lab
	client *fleet.Client
	socket string
	path   string
	pool   *dir.Pool
	stop   func()
}

func newWired(t *testing.T) *wired {
	t.Helper()
	w := &wired{lab: newLab(t), socket: filepath.Join(t.TempDir(), "w.sock"), path: filepath.Join(t.TempDir(), "pool")}
	w.client = fleet.NewClient(w.socket)
	w.work()
	t.Cleanup(func() {
		w.lookedAtLast() // the pool is closed from here on
		w.stop()
	})
	return w
}

// work starts a worker, as after a restart.
func (w *wired) work() {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	pool, err := dir.Open(dir.Config{Name: "default", Path: w.path, Reserve: seedbed.MiB, Trash: time.Hour, Log: log})
	w.ok(err)
	ln, err := run.Socket{Path: w.socket, Mode: 0o660}.Listen(w.t.Context())
	w.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	server := worker.New(worker.Config{Node: testNode, Pools: map[string]worker.Pool{"default": pool}, Hypervisor: w.hv, Log: log})
	go func() { done <- server.Serve(ctx, ln) }()
	w.pool, w.watch.stored = pool, pool
	w.stop = func() {
		cancel()
		if err := errors.Join(<-done, pool.Close()); err != nil {
			w.t.Error(err)
		}
	}
}

// ends runs an engine on the worker until the job is in that state.
func (w *wired) ends(id seedbed.JobID, want seedbed.JobState) seedbed.Job {
	w.t.Helper()
	e := NewEngine(engine.Config{Node: testNode, Workers: 2, Poll: 10 * time.Millisecond}, w.db,
		engine.OneWorker(testNode, w.client), record.Renderer{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	job := w.wait(id, want)
	cancel()
	w.ok(<-done)
	w.invariants(id)
	return job
}

// TestVolumesEndToEnd takes a disk through its life on real files: a snapshot, a flatten that a
// snapshot prevents, a restart of the worker, a removal, and what can be restored.
func TestVolumesEndToEnd(t *testing.T) {
	t.Parallel()
	w := newWired(t)
	ctx := t.Context()
	_, err := w.db.CreateNetwork(ctx, seedbed.Network{
		Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(), DHCP: true,
		Prefix: netip.MustParsePrefix("10.9.0.0/24"), Gateway: netip.MustParseAddr("10.9.0.1"),
	})
	w.ok(err)
	w.ends(w.job(w.intake.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: w.imageFile()}, usual)), seedbed.JobSucceeded)
	_, err = w.db.CreateProfile(ctx, seedbed.Profile{
		Name: "small", Image: "debian", VCPUs: 1, Memory: 256 * seedbed.MiB, Network: "default", Ready: seedbed.ReadyStarted,
	})
	w.ok(err)
	w.ends(w.create("web1"), seedbed.JobSucceeded)
	inst, err := w.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	w.ok(err)
	w.ok(w.hv.DestroyDomain(ctx, inst.ID))
	disk := filepath.Join(w.path, "volumes", inst.Volumes[0].Name+".qcow2")

	w.ends(w.job(w.intake.Snapshot(ctx, seedbed.InDefault("web1"), "s1", "", usual)), seedbed.JobSucceeded)
	job := w.ends(w.job(w.intake.Flatten(ctx, seedbed.InDefault("web1"), usual)), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "seedbed vm snapshot remove") {
		t.Errorf("error %q", job.Error)
	}
	w.stop()
	w.work()
	w.ends(w.job(w.intake.RemoveSnapshot(ctx, seedbed.InDefault("web1"), "s1", usual)), seedbed.JobSucceeded)
	w.ends(w.job(w.intake.Flatten(ctx, seedbed.InDefault("web1"), usual)), seedbed.JobSucceeded)
	if info, err := image.ReadHeader(disk); err != nil || info.Backing != "" || len(info.Snapshots) != 0 {
		t.Errorf("disk %+v, %v", info, err)
	}
	if spec, there := w.hv.Spec(inst.ID); !there || len(spec.Disks) != 1 || spec.Disks[0].Source != disk || spec.Disks[0].Backing != "" {
		t.Errorf("domain %+v", spec)
	}
	w.ok(w.db.DeleteProfile(ctx, "small"))
	w.ends(w.job(w.intake.RemoveImage(ctx, "debian", usual)), seedbed.JobSucceeded)

	w.ends(w.remove("web1"), seedbed.JobSucceeded)
	items, err := effects.Trash.Ask(ctx, w.client, effects.None{})
	if err != nil || len(items) != 1 || items[0].Instance != inst.ID {
		t.Fatalf("trash %+v, %v", items, err)
	}
	v, err := effects.RestoreVolume.Ask(ctx, w.client, effects.TrashRef{Pool: "default", ID: items[0].ID})
	if err != nil || v.Disk.Source != disk {
		t.Errorf("restored %+v, %v", v, err)
	}
	report, err := cleanup.New(cleanup.Config{Trash: alone{w.client}, Now: func() time.Time { return time.Now().Add(9 * time.Hour) }},
		w.db, alone{w.client}).Run(ctx, cleanup.Options{})
	if err != nil || report.Refused != "" {
		t.Errorf("cleanup %+v, %v", report, err)
	}
	if all, err := w.pool.Volumes(ctx); err != nil || len(all) != 1 || !all[0].Restored {
		t.Errorf("the cleanup left %+v, %v", all, err)
	}
}
