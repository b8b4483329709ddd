package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"seedbed"
	"seedbed/api"
	"seedbed/feed"
	"seedbed/internal/build"
	"seedbed/internal/config"
	"seedbed/internal/httpserve"
	"seedbed/internal/mtls"
	"seedbed/internal/run"
	"seedbed/provision"
	"seedbed/provision/cleanup"
	"seedbed/provision/engine"
	"seedbed/provision/intake"
	"seedbed/provision/record"
	"seedbed/store"
	"seedbed/webhook"
	"seedbed/webhook/outbox"
	"seedbed/webhook/signature"
)

// serve runs seedbedd until ctx ends. It opens the state, makes the parts, binds the listeners, and
// runs everything as one group.
func serve(ctx context.Context, c config.Config, log *slog.Logger) error {
	at, err := database(c.Store, log)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := ensureNetwork(ctx, db, c.Network, log); err != nil {
		return err
	}
	serving, err := openServing(ctx, db, c)
	if err != nil {
		return err
	}
	token, err := adminToken(c.API.TokenFile)
	if err != nil {
		return err
	}

	identity, err := openIdentity(c, log)
	if err != nil {
		return err
	}
	workers, err := openFleet(ctx, db, c, identity, log)
	if err != nil {
		return err
	}
	var jobs *engine.Engine // set before the first call
	serving.MACTaken = func(node string, mac seedbed.MAC) string { return jobs.MACTaken(node, mac) }
	serving.Stranger = workers.Stranger
	requests := provision.NewIntake(db, serving)
	deliverer := outbox.New(outbox.Config{Store: db, Directory: db, Node: c.Node, Log: log})
	jobs = provision.NewEngine(engine.Config{
		Node: c.Node, Workers: c.Jobs.Workers, Lease: c.Jobs.Lease, Poll: c.Jobs.Poll,
		Attempts: c.Jobs.Attempts, StageTimeout: c.Jobs.StageTimeout, Log: log,
		PerNode: c.Jobs.PerNode, PerPool: c.Jobs.PerPool, Hooks: c.Jobs.Hooks, Trigger: deliverer.Trigger,
	}, db, workers, serving.Renderer)
	cleaner := cleanup.New(cleanup.Config{
		Grace:      c.Cleanup.Mappings.Grace,
		Deliveries: c.Cleanup.Deliveries.Retention, Access: c.Cleanup.Access.Retention, Output: c.Cleanup.Output.Retention,
		Audit: c.Cleanup.Audit.Retention, Trash: workers, Log: log,
	}, db, workers)
	coordination := openCoordination(c.Coordination, log)
	cron, err := cleanup.NewCron(c.Cleanup.Mappings.Schedule, db, coordination, cleaner)
	if err != nil {
		return err
	}
	metrics := run.NewRegistry()
	metrics.MustRegister(deliverer, record.NewNodeMetrics(db))
	declared, err := declaredHooks(c.Webhook)
	if err != nil {
		return err
	}
	hooks, err := openHooks(c, db, requests, log)
	if err != nil {
		return err
	}
	metrics.MustRegister(hooks)
	checks := []func(context.Context) []seedbed.Check{db.Check, workers.Health, guestPlaneChecks(db, workers.Nodes, c.Node),
		coordination.Check, deliverer.Check, webhook.CheckClock}
	if identity != nil {
		checks = append(checks, identity.Checks)
	}
	rest := api.New(api.Config{
		Store: db, Intake: requests, Console: workers, OVAs: requests, Uploads: workers,
		MaxUpload: c.Storage.MaxUpload, VolumeJobs: requests, Adoptions: requests, Strangers: workers, Snapshots: workers,
		Trash: workers, Metadata: served(db, serving.Renderer), Change: change(db, serving.Renderer),
		Clean:      cleanUp(cleaner),
		Checks:     checks,
		Deliveries: deliverer, Metrics: run.MetricsHandler(metrics), SigningKey: signature.EndpointKey, Receiving: receiving(hooks),
		CheckProfile: requests.CheckProfile, CheckDocument: requests.CheckDocument,
		MaxUserData:    c.Metadata.MaxUserData,
		DefaultNetwork: c.Network.Name, DefaultPool: c.Storage.Pools[0].Name, Pools: serving.Pools,
		Token: token, Version: build.Version(), Node: c.Node, Log: log,
	})

	group := run.NewGroup(log)
	listeners, err := bind(ctx, c, identity, log)
	if err != nil {
		return err
	}
	defer listeners.close()
	group.Add("feed", func(ctx context.Context) error {
		return feed.NewServer(db, log).ServeNode(ctx, listeners.feed, c.Node, db)
	})
	if listeners.planes != nil {
		group.Add("feed of other hosts", func(ctx context.Context) error { return feed.NewServer(db, log).ServeNodes(ctx, listeners.planes, db) })
	}
	group.Add("nodes", workers.Run)
	group.Add("engine", jobs.Run)
	group.Add("live user-data", intake.NewFollower(db, requests, db.Revised, log).Run)
	group.Add("records", refreshRecords(db, serving.Renderer, log))
	group.Add("coordination", coordination.Run)
	group.Add("membership", func(ctx context.Context) error { return coordination.Join(ctx, host(c.Node)) })
	group.Add("members", record.NewMembership(db, coordination, log).Run)
	group.Add("cleanup", cron.Run)
	group.Add("outgoing webhooks", deliverer.Run)
	group.Add("api", func(ctx context.Context) error { return rest.Serve(ctx, listeners.api) })
	group.Add("control socket", func(ctx context.Context) error { return rest.ServeSocket(ctx, listeners.control) })
	group.Add("declared hooks", declareHooks(db, declared, log))
	group.Add("webhooks", func(ctx context.Context) error { return hooks.Serve(ctx, listeners.hooks) })
	group.Add("watchdog", run.Watchdog(log, func(ctx context.Context) error {
		_, err := db.Networks(ctx)
		return err
	}))
	log.Info("listening", "api", c.API.Listen, "webhooks", c.Webhook.Listen, "control", c.API.Socket)
	return group.Run(ctx)
}

// listeners are all listeners of seedbedd. planes is nil unless seedbedd serves guest planes of
// other hosts.
type listeners struct{ api, hooks, control, feed, planes net.Listener }

func (l *listeners) close() {
	for _, ln := range []net.Listener{l.api, l.hooks, l.control, l.feed, l.planes} {
		if ln != nil {
			ln.Close() // a second close is harmless
		}
	}
}

// bind opens all listeners, or none if one fails.
func bind(ctx context.Context, c config.Config, identity *mtls.Identity, log *slog.Logger) (*listeners, error) {
	l := &listeners{}
	for _, b := range []struct {
		at     *net.Listener
		what   string
		listen func() (net.Listener, error)
	}{
		{&l.feed, "feed.socket", func() (net.Listener, error) {
			return run.Socket{Path: c.Feed.Socket, Mode: 0o660, Group: cmp.Or(c.Feed.Group, c.Group)}.Listen(ctx)
		}},
		{&l.control, "api.socket", func() (net.Listener, error) {
			return run.Socket{Path: c.API.Socket, Mode: 0o660, Group: c.Group}.Listen(ctx)
		}},
		{&l.api, "api.listen", func() (net.Listener, error) { return apiListener(ctx, c.API, log) }},
		{&l.hooks, "webhook.listen", func() (net.Listener, error) { return tcp(ctx, c.Webhook.Listen) }},
		{&l.planes, "feed.cluster_listen", func() (net.Listener, error) {
			if c.Feed.ClusterListen == "" {
				return nil, nil
			}
			return identity.Listen(ctx, c.Feed.ClusterListen, mtls.Metadata) // the configuration is refused without its certificate
		}},
	} {
		ln, err := b.listen()
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w", b.what, err)
		}
		*b.at = ln
	}
	return l, nil
}

func tcp(ctx context.Context, addr string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", addr)
}

// apiListener returns the API's TCP listener. It uses TLS if a certificate is configured.
func apiListener(ctx context.Context, c config.API, log *slog.Logger) (net.Listener, error) {
	if c.TLS.Cert == "" {
		return tcp(ctx, c.Listen)
	}
	conf, err := httpserve.NewTLS(httpserve.Certificates{Name: "api.tls", Cert: c.TLS.Cert, Key: c.TLS.Key}, log)
	if err != nil {
		return nil, err
	}
	ln, err := tcp(ctx, c.Listen)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(ln, conf), nil
}

// apiURL returns the API's URL for the answers to webhooks.
func apiURL(c config.API) string {
	if c.TLS.Cert != "" {
		return "https://" + c.Listen
	}
	return "http://" + c.Listen
}

// cleanUp returns the API's function that runs the cleaner.
func cleanUp(cleaner *cleanup.Cleaner) func(context.Context, bool, bool) (seedbed.CleanupReport, error) {
	return func(ctx context.Context, dryRun, force bool) (seedbed.CleanupReport, error) {
		return cleaner.Run(ctx, cleanup.Options{DryRun: dryRun, Force: force})
	}
}

// randomToken returns 32 random bytes in hexadecimal.
func randomToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%x", b)
}
