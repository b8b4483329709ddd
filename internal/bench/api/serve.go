package main

import (
	"context"
	"log/slog"
	"net"
	"strings"

	"seedbed"
	"seedbed/api"
	"seedbed/internal/bench"
	"seedbed/provision"
	"seedbed/provision/intake"
	"seedbed/store"
)

// place is where a server keeps what it has, and where bare rows go.
type place struct{ name, path, dsn, bare string }

// config is the store's own configuration.
func (p place) config() store.Config {
	return store.Config{Path: p.path, DSN: p.dsn, Log: slog.New(slog.DiscardHandler)}
}

// configured is the token of the server's configuration, which is not used here.
const configured = "an unused token of this benchmark"

// serve is the server: it says where it listens, and ends with its input.
func serve(at string) error {
	p := place{path: at}
	if dsn, ok := strings.CutPrefix(at, "dsn:"); ok {
		p = place{dsn: dsn}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, err := store.Open(ctx, p.config())
	if err != nil {
		return err
	}
	defer db.Close()
	requests := provision.NewIntake(db, intake.Serving{Node: "bench"})
	rest := api.New(api.Config{
		Store: db, Intake: requests, VolumeJobs: requests, CheckProfile: requests.CheckProfile, CheckDocument: requests.CheckDocument,
		DefaultNetwork: "default", DefaultPool: "default", Pools: []string{"default"}, Token: []byte(configured), Node: "bench",
		Log: slog.New(slog.DiscardHandler),
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bench.Served(ln.Addr(), cancel)
	return rest.Serve(ctx, ln)
}

// start starts this program again as the server of that place.
func start(ctx context.Context, p place) (*bench.Child, error) {
	at := p.path
	if p.dsn != "" {
		at = "dsn:" + p.dsn
	}
	return bench.StartChild(ctx, serving, at)
}

// secret is the token that all clients hold, that of an admin of the installation.
const secret = "0123456789abcdef0123456789abcdef"

// holder is what the database keeps of it.
var holder = seedbed.Token{Name: "bench", Role: seedbed.RoleAdmin}
