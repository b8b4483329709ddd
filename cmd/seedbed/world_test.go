package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
	"seedbed/metadata"
	"seedbed/provision"
	"seedbed/provision/cleanup"
	"seedbed/provision/intake"
	"seedbed/provision/network"
	"seedbed/provision/record"
	"seedbed/provision/worker/drivertest"
	"seedbed/store"
	"seedbed/store/sqldb/sqldbtest"
	"seedbed/webhook"
	"seedbed/webhook/outbox"
	"seedbed/webhook/signature"
)

const testToken = "0123456789abcdef0123456789abcdef"

// world is a seedbedd without a worker. It has the real API, webhook receiver, intake and store,
// and an engine that only writes to the database.
type world struct {
	db       *store.DB
	hookAddr string
	apiAddr  string
	stop     func()
}

func newWorld(ctx context.Context, dir string) (*world, error) {
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(dir, "seedbed.db")
	if err := sqldbtest.Make(path); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Config{Path: path, Log: log})
	if err != nil {
		return nil, err
	}
	if _, err := db.CreateNetwork(ctx, seedbed.Network{
		Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(), NAT: true, DHCP: true,
		Prefix: netip.MustParsePrefix("10.9.0.0/24"), Gateway: netip.MustParseAddr("10.9.0.1"),
		Published: &seedbed.Publication{All: true},
	}); err != nil {
		return nil, err
	}
	// The world's first node, as its worker reported it.
	if err := db.EnsureNode(ctx, "hv1"); err != nil {
		return nil, err
	}
	report := seedbed.NodeReport{CPUs: 16, Load: 0.5, Memory: 64 * seedbed.GiB, MemoryFree: 48 * seedbed.GiB, Domains: 1,
		Arch: "x86_64", Hypervisor: "QEMU 7.2.0 (kvm)",
		Pools: []seedbed.PoolInfo{{Name: "default", Type: "dir", Size: 100 * seedbed.GiB, Free: 25 * seedbed.GiB}}}
	if err := db.NoteNode(ctx, "hv1", report, "", time.Now()); err != nil {
		return nil, err
	}
	served := &guests{db, record.Renderer{Region: "seedbed", Zone: "seedbed-local"}}
	pool := newDisks(db)
	requests := provision.NewIntake(db, intake.Serving{Node: "hv1", Network: "default", Renderer: served.renderer,
		Snapshots: pool.Snapshots, Backups: targets})
	rules := network.Rules{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.76.0.0/14")}}
	hooks := webhook.New(webhook.Config{Hooks: db, History: db, Jobs: db, Intake: requests, Log: log,
		Networks: webhook.Networks{Rules: rules, Store: db, Change: served.change}})
	deliverer := outbox.New(outbox.Config{Store: db, Directory: db, Node: "hv1", Log: log})
	hookLn, err1 := net.Listen("tcp", "127.0.0.1:0")
	apiLn, err2 := net.Listen("tcp", "127.0.0.1:0")
	sockLn, err3 := net.Listen("unix", filepath.Join(dir, "c.sock"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	people := newPeople(apiLn.Addr().String())
	terminals, err := drivertest.NewTerminals(dir)
	if err != nil {
		return nil, err
	}
	rest := api.New(api.Config{
		SignIn: people.signIn,
		Store:  db, Intake: requests, VolumeJobs: requests, OVAs: requests, Uploads: pool, MaxUpload: 64 * seedbed.MiB,
		Adoptions: requests, Strangers: strangers{}, Snapshots: pool, Trash: pool, Console: console{db}, Domains: console{db}, Clean: clean,
		Terminals: terminals, Usage: terminals.Usage, Fencing: fences{db}, Backups: targets, BackupJobs: requests,
		Schedules: cleanup.NewScheduler(db, nil, requests, log),
		Metadata:  served.served, Change: served.change, Probe: probe, CheckProfile: requests.CheckProfile, CheckDocument: requests.CheckDocument,
		Checks: []func(context.Context) []seedbed.Check{func(context.Context) []seedbed.Check {
			return []seedbed.Check{{Name: "store", OK: true}}
		}},
		Receiving: api.Receiving{Check: hooks.CheckHook, CheckKeys: webhook.CheckKeys, NewKey: signature.NewKey,
			ParseKey: signature.ParseKey, DryRun: hooks.DryRun, Redeliver: hooks.Redeliver},
		Deliveries: deliverer, SigningKey: signature.EndpointKey,
		NetworkPrefixes: rules.Prefixes,
		DefaultNetwork:  "default", DefaultPool: "default", Pools: []string{"default"}, Token: []byte(testToken), Version: "1.0",
		Node: "hv1", Log: log,
	})
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for _, task := range []func() error{
		func() error { return hooks.Serve(ctx, hookLn) },
		func() error { return rest.Serve(ctx, apiLn) },
		func() error { return rest.ServeSocket(ctx, sockLn) },
		func() error { return engine{db, pool, terminals.Pool}.run(ctx) },
		func() error { return deliverer.Run(ctx) },
	} {
		wait.Go(func() {
			if err := task(); err != nil && ctx.Err() == nil {
				panic(err)
			}
		})
	}
	return &world{db: db, hookAddr: hookLn.Addr().String(), apiAddr: apiLn.Addr().String(), stop: func() {
		cancel()
		wait.Wait()
		people.stop()
		if err := terminals.Stop(); err != nil {
			panic(err)
		}
		db.Close()
	}}, nil
}

// served returns what the guest plane would answer.
func (w *guests) served(ctx context.Context, i seedbed.Instance, path string) (body []byte, contentType string, ok bool, err error) {
	v := metadata.View{
		Guest: w.renderer.Of(i, seedbed.Guest{}), Documents: seedbed.Documents{UserData: i.UserData, VendorData: i.VendorData},
	}
	v.Networks, err = w.db.Networks(ctx)
	v.Guest.Maintenance, _ = w.db.Maintenance(ctx, "", i.ID)
	v.Maintenance, _ = w.db.Maintenance(ctx, i.Node, "")
	body, contentType, ok = metadata.Render(v, path)
	return body, contentType, ok, err
}

// guests renders what is served, as seedbedd does.
type guests struct {
	db       *store.DB
	renderer record.Renderer
}

func (w *guests) change(ctx context.Context, name seedbed.InstanceName, change func(*seedbed.Instance) error) (seedbed.Instance, error) {
	return w.db.ChangeInstance(ctx, name, change, w.renderer.Of)
}

func clean(_ context.Context, dryRun, force bool) (seedbed.CleanupReport, error) {
	if !dryRun && !force {
		return seedbed.CleanupReport{Refused: "libvirt does not answer"}, nil
	}
	return seedbed.CleanupReport{Items: []seedbed.CleanupItem{{Task: "mappings", Action: "drop", Subject: "web1",
		Detail: "gone for 20m"}}}, nil
}

func TestMain(m *testing.M) { runMain(m) }
