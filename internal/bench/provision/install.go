//go:build ceph && libvirt

package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"seedbed"
	"seedbed/feed"
	"seedbed/internal/bench"
	"seedbed/internal/lab"
	"seedbed/internal/run"
	"seedbed/provision"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/fleet"
	"seedbed/provision/intake"
	"seedbed/provision/record"
	"seedbed/store"
)

const (
	node    = "bench"
	bridge  = "sbbench0"
	profile = "small"
	base    = "base"
	// workers is how many jobs run at the same time: what the configuration has by default.
	workers = 4
	// diskSize is the size of an instance's disk, which is larger than the image.
	diskSize = 64 * seedbed.MiB
	// reporting is a profile whose jobs wait for the guest's report, which does not come.
	reporting = "reporting"
	// patience is how long anything may take.
	patience = 10 * time.Minute
	// glance is the least time between two looks at a job that is waited for.
	glance = 2 * time.Millisecond
)

// installation is an engine in this process, on SQLite, with the worker in one of its own
// and a guest plane that applies what it is told at once.
type installation struct {
	db     *store.DB
	intake *intake.Intake
	client *fleet.Client
	pool   string // the pool's name in Seedbed
	worker *lab.Process
	dir    string
	conf   *lab.CephCluster
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

func install(ctx context.Context, s setup, l *bench.Lab, c *lab.CephCluster, h *hand) (*installation, error) {
	dir := lab.Dir(l)
	i := &installation{pool: c.Name, dir: dir, conf: c}
	if out, err := exec.CommandContext(ctx, "ip", "link", "add", "name", bridge, "type", "bridge").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make bridge %s: %w: %s", bridge, err, out)
	}
	l.Cleanup(func() { exec.Command("ip", "link", "del", bridge).Run() })
	file, socket := filepath.Join(dir, "seedbed.yaml"), filepath.Join(dir, "run", "worker.sock")
	health, err := freeAddr()
	if err != nil {
		return nil, err
	}
	storage := strings.Replace(c.Storage(l, h.pool), "{", "{backup_dirs: ["+dir+"], ", 1)
	text := fmt.Sprintf("node: %s\ndata_dir: %[2]s\nrun_dir: %[2]s/run\nlibvirt: {domain_type: qemu, console_dir: %[2]s/console}\n"+
		"worker: {listen: %q, state: %[2]s/worker, data_dir: %[2]s/known}\nstorage: %[4]s\n", node, dir, health, storage)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	i.worker = lab.Start(l, filepath.Join(dir, "worker.log"), s.worker, "--config", file)
	lab.Await(l, time.Minute, "the worker serves", func() bool {
		if !i.worker.Alive() {
			l.Fatalf("the worker ended:\n%s", i.worker.Tail())
		}
		_, err := os.Stat(socket)
		return err == nil
	})
	if i.db, err = store.Open(ctx, store.Config{Path: filepath.Join(dir, "seedbed.db"), Log: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	i.client = fleet.NewClient(socket)
	i.intake = provision.NewIntake(i.db, intake.Serving{Node: node, Backups: targets{i.client}})
	if err := i.run(ctx); err != nil {
		return nil, err
	}
	return i, i.furnish(ctx, l)
}

// freeAddr is a loopback address with a port that nothing listens on.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// plane applies everything.
type plane struct{}

func (plane) Apply(context.Context, seedbed.GuestPlaneState) error { return nil }

// run starts the engine, and the guest plane over the real feed.
func (i *installation) run(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler)
	ctx, i.stop = context.WithCancel(ctx)
	socket := filepath.Join(i.dir, "run", "feed.sock")
	ln, err := run.Socket{Path: socket, Mode: 0o600}.Listen(ctx)
	if err != nil {
		return err
	}
	jobs := provision.NewEngine(engine.Config{Node: node, Workers: workers, Log: quiet}, i.db, engine.OneWorker(node, i.client),
		record.Renderer{})
	client := feed.NewClient(feed.ClientConfig{Socket: socket, Node: node, Dir: filepath.Join(i.dir, "feed"), Applier: plane{}, Log: quiet})
	for _, part := range []func() error{
		func() error { return jobs.Run(ctx) },
		func() error { return feed.NewServer(i.db, quiet).ServeNode(ctx, ln, node, i.db) },
		func() error { return client.Run(ctx) },
	} {
		i.wg.Go(func() {
			if err := part(); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "bench provision: a part of the installation ended:", err)
			}
		})
	}
	return nil
}

// furnish makes an image, a network and a profile.
func (i *installation) furnish(ctx context.Context, l *bench.Lab) error {
	disk := make([]byte, seedbed.MiB)
	copy(disk, []byte{0xfa, 0xf4, 0xeb, 0xfc}) // cli; hlt; jmp back to hlt
	disk[510], disk[511] = 0x55, 0xaa
	path := filepath.Join(l.Dir, "blank.raw")
	if err := os.WriteFile(path, disk, 0o644); err != nil {
		return err
	}
	receipt, err := i.intake.Import(ctx, base, i.pool, seedbed.ImportSpec{Path: path}, seedbed.JobOptions{})
	if err != nil {
		return err
	}
	if _, err := i.await(ctx, receipt.Job); err != nil {
		return err
	}
	if _, err := i.db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: bridge, MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.64.0.0/16"), Gateway: netip.MustParseAddr("10.64.0.1")}); err != nil {
		return err
	}
	for _, p := range []seedbed.Profile{
		{Name: profile, DiskSize: diskSize, Ready: seedbed.ReadyStarted},
		{Name: reporting, DiskSize: diskSize, Ready: seedbed.ReadyReport},
		{Name: roomy, DiskSize: roomySize, Ready: seedbed.ReadyStarted},
	} {
		p.Image, p.VCPUs, p.Memory, p.Network = base, 1, 64*seedbed.MiB, "default"
		if _, err := i.db.CreateProfile(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// targets are those of backups, which the one worker reaches.
type targets struct{ worker effects.Worker }

func (targets) TargetNode(seedbed.BackupTarget) (string, error) { return node, nil }

func (t targets) BackupManifest(ctx context.Context, at seedbed.BackupTarget, key seedbed.BackupKey) (seedbed.BackupManifest, error) {
	return effects.ReadManifest.Ask(ctx, t.worker, effects.BackupRef{Place: at.Place(), Key: key})
}

// await waits until a job has succeeded. Every write gives a hint, and each look takes
// processor time that is not the installation's: one waits at a time, and not for every write.
func (i *installation) await(ctx context.Context, id seedbed.JobID) (seedbed.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		hint := i.db.Hint()
		j, err := i.db.Job(ctx, id)
		switch {
		case err != nil:
			return j, err
		case j.State == seedbed.JobSucceeded:
			return j, nil
		case j.State.Terminal():
			return j, fmt.Errorf("job %s of %s ended %s: %s", j.Kind, j.Subject, j.State, j.Error)
		}
		select {
		case <-hint:
		case <-ctx.Done():
			return j, ctx.Err()
		}
		time.Sleep(glance)
	}
}

// awaitAll waits until jobs have succeeded, which run at the same time.
func (i *installation) awaitAll(ctx context.Context, ids []seedbed.JobID) error {
	for _, id := range ids {
		if _, err := i.await(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// create makes an instance.
func (i *installation) create(ctx context.Context, name string) (seedbed.Job, error) {
	receipt, err := i.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: name, Profile: profile}, nil)
	if err != nil {
		return seedbed.Job{}, err
	}
	return i.await(ctx, receipt.Job)
}

func (i *installation) remove(ctx context.Context, name string) error {
	receipt, err := i.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRemove, Name: name}, nil)
	if err == nil {
		_, err = i.await(ctx, receipt.Job)
	}
	return err
}

// many asks for the same of several instances at once, and waits until it is done.
func (i *installation) many(ctx context.Context, names []string, asked seedbed.Request) error {
	jobs := make([]seedbed.JobID, len(names))
	err := atOnce(len(names), len(names), func(n int) error {
		one := asked
		one.Name, one.Params = names[n], maps.Clone(asked.Params)
		receipt, err := i.intake.Submit(ctx, one, nil)
		jobs[n] = receipt.Job
		return err
	})
	if err != nil {
		return err
	}
	return i.awaitAll(ctx, jobs)
}

func (i *installation) close() {
	i.stop()
	i.wg.Wait()
	i.db.Close()
}
