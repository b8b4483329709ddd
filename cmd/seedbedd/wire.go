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
	"seedbed/api/signin"
	"seedbed/feed"
	"seedbed/internal/build"
	"seedbed/internal/config"
	"seedbed/internal/httpserve"
	"seedbed/internal/mtls"
	"seedbed/internal/run"
	"seedbed/provision"
	"seedbed/provision/cleanup"
	"seedbed/provision/engine"
	"seedbed/provision/failover"
	"seedbed/provision/fleet"
	"seedbed/provision/intake"
	"seedbed/provision/placement"
	"seedbed/provision/record"
	"seedbed/store"
	"seedbed/webhook"
	"seedbed/webhook/outbox"
	"seedbed/webhook/signature"
)

// serve runs seedbedd until ctx ends. It opens the state, makes the parts, binds the listeners, and
// runs everything as one group.
func serve(ctx context.Context, c config.Config, log *slog.Logger) error {
	for _, w := range c.Warnings() {
		log.Warn("configuration", "warning", w)
	}
	at, err := database(c.Store, log)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := open(ctx, c, db, log)
	if err != nil {
		return err
	}
	l, err := bind(ctx, c, p.identity, log)
	if err != nil {
		return err
	}
	defer l.close()
	group := p.group(l)
	log.Info("listening", "api", c.API.Listen, "webhooks", c.Webhook.Listen, "control", c.API.Socket)
	return group.Run(ctx)
}

// parts are what seedbedd consists of, besides its listeners.
type parts struct {
	config       config.Config
	log          *slog.Logger
	db           *store.DB
	serving      intake.Serving
	identity     *mtls.Identity // nil if none is configured
	workers      *fleet.Fleet
	fencing      *fencing
	intake       *intake.Intake
	engine       *engine.Engine
	outbox       *outbox.Deliverer
	cleaner      *cleanup.Cleaner
	coordination coordinator
	cron         *cleanup.Cron
	schedules    *cleanup.Scheduler
	declared     []seedbed.Hook
	hooks        *webhook.Server
	signIn       *api.SignIn      // nil if people do not sign in
	provider     *signin.Provider // where they do
	rest         *api.Server
}

// open makes the parts. None of them runs yet.
func open(ctx context.Context, c config.Config, db *store.DB, log *slog.Logger) (*parts, error) {
	p := &parts{config: c, log: log, db: db}
	if err := ensureNetwork(ctx, db, c.Network, log); err != nil {
		return nil, err
	}
	var err error
	if p.serving, err = openServing(ctx, db, c); err != nil {
		return nil, err
	}
	token, err := adminToken(c.API.TokenFile)
	if err != nil {
		return nil, err
	}
	if p.identity, err = openIdentity(c, log); err != nil {
		return nil, err
	}
	if p.workers, err = openFleet(ctx, db, c, p.identity, log); err != nil {
		return nil, err
	}
	if p.fencing, err = openFencing(c.Fencing.KeyFile, db, p.workers); err != nil {
		return nil, err
	}
	p.openJobs()
	if err := p.openCleanup(); err != nil {
		return nil, err
	}
	if p.declared, err = declaredHooks(c.Webhook); err != nil {
		return nil, err
	}
	if p.hooks, err = openHooks(c, db, p.intake, p.serving.Renderer, log); err != nil {
		return nil, err
	}
	listener, err := apiTLS(c.API, log)
	if err != nil {
		return nil, err
	}
	if p.signIn, p.provider, err = openSignIn(ctx, db, c.OIDC); err != nil {
		return nil, err
	}
	p.rest = p.openAPI(token, listener)
	return p, nil
}

// openJobs makes what accepts jobs, runs them, and sends their events.
func (p *parts) openJobs() {
	c := p.config
	p.serving.MACTaken = func(node string, mac seedbed.MAC) string { return p.engine.MACTaken(node, mac) }
	p.serving.HasDomain = p.workers.HasDomain
	p.serving.Snapshots = p.workers.Snapshots
	p.serving.Backups = p.workers
	p.serving.ImportProblem = p.workers.ImportProblem
	p.intake = provision.NewIntake(p.db, p.serving)
	p.outbox = outbox.New(outbox.Config{Store: p.db, Directory: p.db, Node: c.Node, Log: p.log})
	p.engine = provision.NewEngine(engine.Config{
		Node: c.Node, Workers: c.Jobs.Workers, Lease: c.Jobs.Lease, Poll: c.Jobs.Poll,
		Attempts: c.Jobs.Attempts, StageTimeout: c.Jobs.StageTimeout, Log: p.log,
		PerNode: c.Jobs.PerNode, PerPool: c.Jobs.PerPool, Hooks: c.Jobs.Hooks, Trigger: p.outbox.Trigger,
		Unseal: p.fencing.Unseal,
		Submit: func(ctx context.Context, req seedbed.Request) (seedbed.Receipt, error) {
			return p.intake.Submit(ctx, req, nil)
		},
	}, p.db, p.workers, p.serving.Renderer)
}

// openCleanup makes the cleaner, and the schedule that one control host runs it by.
func (p *parts) openCleanup() (err error) {
	c := p.config.Cleanup
	p.cleaner = cleanup.New(cleanup.Config{
		Grace: c.Mappings.Grace, Deliveries: c.Deliveries.Retention, Access: c.Access.Retention, Output: c.Output.Retention,
		Audit: c.Audit.Retention, RemovedBackups: c.Backups.Retention, Trash: p.workers, Log: p.log,
		Submit: p.submit, Backups: backups{p.workers, p.intake},
	}, p.db, p.workers)
	p.coordination = openCoordination(p.config.Coordination, p.log)
	p.schedules = cleanup.NewScheduler(p.db, p.coordination, p.intake, p.log)
	p.cron, err = cleanup.NewCron(c.Mappings.Schedule, p.db, p.coordination, p.cleaner)
	return err
}

// submit accepts the job of a request that no caller sent.
func (p *parts) submit(ctx context.Context, req seedbed.Request) error {
	_, err := p.intake.Submit(ctx, req, nil)
	return err
}

// backups are what the cleanup uses of backups.
type backups struct {
	*fleet.Fleet
	*intake.Intake
}

// openAPI makes the API, with the health checks and metrics of all parts.
func (p *parts) openAPI(token []byte, listener *tls.Config) *api.Server {
	c, db := p.config, p.db
	metrics := run.NewRegistry()
	metrics.MustRegister(p.outbox, record.NewNodeMetrics(db), p.hooks)
	checks := []func(context.Context) []seedbed.Check{db.Check, p.workers.Health, guestPlaneChecks(db, p.workers.Nodes, c.Node),
		strayChecks(db.Strays), reachChecks(db.Networks, db.Nodes), placement.Check(db, p.serving.Placement),
		scheduleChecks(db.Schedules, db.ScheduleFailures), maintenanceCheck(db.Maintained),
		consentChecks(db.Scripts, db.Nodes), p.coordination.Check, p.outbox.Check, webhook.CheckClock}
	if p.identity != nil {
		checks = append(checks, p.identity.Checks)
	}
	if p.provider != nil {
		checks = append(checks, signInChecks(p.provider, p.signIn.Grants, db.Project, db.Role))
	}
	return api.New(api.Config{
		SignIn: p.signIn,
		Store:  db, Intake: p.intake, Console: p.workers, Domains: p.workers, Terminals: p.workers, OVAs: p.intake, Uploads: p.workers,
		MaxUpload: c.Storage.MaxUpload, VolumeJobs: p.intake, Adoptions: p.intake, Strangers: p.workers, Snapshots: p.workers,
		Trash: p.workers, Metadata: served(db, p.serving.Renderer), Change: change(db, p.serving.Renderer),
		Probe:   p.workers.Probe,
		Usage:   p.workers.Usage,
		Fencing: p.fencing,
		Clean:   cleanUp(p.cleaner),
		Backups: p.workers, BackupJobs: p.intake, Schedules: p.schedules,
		Checks:     checks,
		Deliveries: p.outbox, Metrics: run.MetricsHandler(metrics), SigningKey: signature.EndpointKey, Receiving: receiving(p.hooks),
		CheckProfile: p.intake.CheckProfile, CheckDocument: p.intake.CheckDocument,
		MaxUserData: c.Metadata.MaxUserData,
		Resolvers:   c.Network.Resolvers(), NetworkPrefixes: c.Network.ProjectPrefixes, PVCUplink: c.Network.PVCUplink,
		DefaultNetwork: c.Network.Name, DefaultPool: c.Storage.Pools[0].Name, Pools: p.serving.Pools,
		Token: token, TLS: listener, Version: build.Version(), Node: c.Node, Log: p.log,
	})
}

// group returns all tasks of seedbedd.
func (p *parts) group(l *listeners) *run.Group {
	c, db, log := p.config, p.db, p.log
	group := run.NewGroup(log)
	group.Add("feed", func(ctx context.Context) error { return feed.NewServer(db, log).ServeNode(ctx, l.feed, c.Node, db) })
	if l.planes != nil {
		group.Add("feed of other hosts", func(ctx context.Context) error { return feed.NewServer(db, log).ServeNodes(ctx, l.planes, db) })
	}
	group.Add("nodes", p.workers.Run)
	group.Add("engine", p.engine.Run)
	group.Add("lost nodes", failover.New(failover.Config{Node: c.Node, After: c.Fencing.After, Share: c.Fencing.Share, Log: log,
		Submit: func(ctx context.Context, req seedbed.Request) (seedbed.Receipt, error) {
			return p.intake.Submit(ctx, req, nil)
		},
	}, db, p.workers).Run)
	group.Add("live user-data", intake.NewFollower(db, p.intake, db.Revised, log).Run)
	group.Add("records", func(ctx context.Context) error { p.serving.Renderer.Refresh(ctx, db, log); return nil })
	group.Add("coordination", p.coordination.Run)
	group.Add("membership", func(ctx context.Context) error { return p.coordination.Join(ctx, host(c.Node)) })
	group.Add("members", record.NewMembership(db, p.coordination, log).Run)
	group.Add("cleanup", p.cron.Run)
	group.Add("schedules", p.schedules.Run)
	group.Add("outgoing webhooks", p.outbox.Run)
	group.Add("api", func(ctx context.Context) error { return p.rest.Serve(ctx, l.api) })
	group.Add("control socket", func(ctx context.Context) error { return p.rest.ServeSocket(ctx, l.control) })
	group.Add("declared hooks", declareHooks(db, p.declared, log))
	group.Add("webhooks", func(ctx context.Context) error { return p.hooks.Serve(ctx, l.hooks) })
	group.Add("watchdog", run.Watchdog(log, func(ctx context.Context) error {
		_, err := db.Networks(ctx)
		return err
	}))
	return group
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
			return run.Socket{Path: c.Feed.Socket, Mode: 0o660, Group: cmp.Or(c.Feed.Group, c.Group), Log: log}.Listen(ctx)
		}},
		{&l.control, "api.socket", func() (net.Listener, error) {
			return run.Socket{Path: c.API.Socket, Mode: 0o660, Group: c.Group, Log: log}.Listen(ctx)
		}},
		{&l.api, "api.listen", func() (net.Listener, error) { return tcp(ctx, c.API.Listen) }},
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

// apiTLS returns how the API's TCP address encrypts, or nil if no certificate is configured.
func apiTLS(c config.API, log *slog.Logger) (*tls.Config, error) {
	if c.TLS.Cert == "" {
		return nil, nil
	}
	return httpserve.NewTLS(httpserve.Certificates{Name: "api.tls", Cert: c.TLS.Cert, Key: c.TLS.Key}, log)
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
