package metadata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// Config configures a Server. Directory, Log, and one of Neighbour and Identify must be set.
type Config struct {
	Directory *Directory
	// Neighbour looks up the caller's MAC for the cross-check.
	Neighbour NeighbourFunc
	// HasLink reports whether this node has an interface of that name. The server calls it for the
	// tap of a NIC that an unmarked caller matches by MAC: if the tap is on this node, only the
	// mark identifies the NIC. Nil means that the node has none.
	HasLink func(ctx context.Context, name string) (bool, error)
	// Identify replaces the queries to the kernel, for tests and for transports that identify
	// callers in another way.
	Identify func(net.Conn) (Facts, error)
	// OnEvent receives what guests did: access, user-data and, without OnReport, report. It must
	// not block. Nil drops the events.
	OnEvent func(seedbed.GuestEvent)
	// OnReport receives what a guest posts, its report or password, and returns once that is
	// durable. Only then does the guest get its answer; after an error it posts again. Nil means
	// OnEvent.
	OnReport func(context.Context, seedbed.GuestEvent) error
	Limits   Limits
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Limits bound what callers can use. Zero values become the defaults.
type Limits struct {
	// Conns is the total number of connections; 8192.
	Conns int
	// GuestConns is the number of connections per instance; 64.
	GuestConns int
	// GuestWaits is the number of requests of an instance that wait for a change; 8. Those of all
	// instances are at most half of Conns.
	GuestWaits int
	// UnknownConns is the number of connections of unknown callers, including held ones; 256.
	// StrangerConns is the number for one of them, identified by MAC and bridge; 16.
	UnknownConns, SourceConns int
	// Rate is how many requests of an instance are answered per second, after a burst of Burst;
	// 2,000 and 4,096. Faster requests are delayed. Burst must be at least 1,024.
	Rate, Burst int
	// Hold is how long an unknown caller is held while the directory is not in sync; 10 s.
	Hold time.Duration
	// Read is the time for one request to arrive (5 s), Write for one answer to leave (30 s), Idle
	// between two requests of a connection (30 s).
	Read, Write, Idle time.Duration
	// Shutdown is the time that running requests get when Serve ends; 3 s.
	Shutdown time.Duration
}

const (
	maxHeader = 8 << 10
	maxBody   = 16 << 10
)

func (l Limits) withDefaults() Limits {
	for _, v := range []struct {
		have *int
		def  int
	}{{&l.Conns, 8192}, {&l.GuestConns, 64}, {&l.GuestWaits, 8}, {&l.UnknownConns, 256}, {&l.SourceConns, 16},
		{&l.Rate, 2000}, {&l.Burst, 4096}} {
		if *v.have <= 0 {
			*v.have = v.def
		}
	}
	for _, v := range []struct {
		have *time.Duration
		def  time.Duration
	}{{&l.Hold, 10 * time.Second}, {&l.Read, 5 * time.Second}, {&l.Write, 30 * time.Second},
		{&l.Idle, 30 * time.Second}, {&l.Shutdown, 3 * time.Second}} {
		if *v.have <= 0 {
			*v.have = v.def
		}
	}
	l.Burst = max(l.Burst, 1024)
	return l
}

// Server answers guests. One Server serves any number of listeners.
type Server struct {
	cfg   Config
	dir   *Directory
	log   *slog.Logger
	now   func() time.Time
	count counters
	warn  throttle

	began    time.Time
	interval time.Duration // between two requests of an instance at the even rate

	overLimit   overLimit
	sourceConns sourceConns
}

// New returns a server. Nothing runs before Serve.
func New(cfg Config) *Server {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.OnEvent == nil {
		cfg.OnEvent = func(seedbed.GuestEvent) {}
	}
	return &Server{cfg: cfg, dir: cfg.Directory, log: cfg.Log, now: cfg.Now, warn: throttle{every: 10 * time.Second},
		began: time.Now(), interval: time.Second / time.Duration(cfg.Limits.Rate)}
}

// Serve answers on ln, which [Listen] made for one bridge, until ctx ends; then it closes ln and
// every connection, waits at most Limits.Shutdown for running requests, and returns nil. Any other
// end is an error.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gl := newGuestListener(ctx, ln, s)
	if s.cfg.Identify == nil {
		gl.bound, gl.unbound = boundTo(ln)
	}
	app := s.app(ctx)
	served := make(chan error, 1)
	go func() { served <- app.Listener(gl) }()
	telling, drained := context.WithCancel(context.WithoutCancel(ctx))
	var sums sync.WaitGroup
	sums.Go(func() { s.recordSums(telling) })

	var err error
	select {
	case err = <-served:
		if err == nil && ctx.Err() == nil {
			err = errors.New("listener was closed")
		}
	case <-ctx.Done():
		gl.Close()
		err = <-served
	}
	cancel()
	gl.Close()
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Limits.Shutdown)
	defer done()
	gl.drain(grace)
	drained()
	sums.Wait()
	if err != nil {
		return fmt.Errorf("serve guests on %s: %w", ln.Addr(), err)
	}
	return nil
}

// app is the router behind the guard.
func (s *Server) app(ctx context.Context) *fiber.App {
	app := fiber.New(fiber.Config{
		AppName:                      "seedbed-metadata",
		ServerHeader:                 "EC2ws",
		StrictRouting:                true,
		CaseSensitive:                true,
		DisableStartupMessage:        true,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               maxHeader,
		BodyLimit:                    maxBody,
		ReadTimeout:                  s.cfg.Limits.Read,
		WriteTimeout:                 s.cfg.Limits.Write,
		IdleTimeout:                  s.cfg.Limits.Idle,
		Concurrency:                  2 * s.cfg.Limits.Conns, // the listener has the limit
		ErrorHandler:                 s.malformed,
	})
	app.Put(tokenPath, s.issueToken)
	app.Post(reportPrefix+":token", func(c *fiber.Ctx) error { return s.report(ctx, c) })
	app.Post("/openstack/*", func(c *fiber.Ctx) error { return s.takePassword(ctx, c) })
	app.Use(s.otherMethod)
	srv := app.Server()
	srv.Handler = s.guard(ctx, srv.Handler)
	srv.HeaderReceived = plainHost
	srv.MaxIdleWorkerDuration = time.Second
	return app
}
