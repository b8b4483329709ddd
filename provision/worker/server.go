package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/provision/effects"
)

// Config configures a server.
type Config struct {
	// Node is the name of this host.
	Node string
	// Pools are the storage pools by name.
	Pools map[string]Pool
	// Hypervisor runs the domains.
	Hypervisor Hypervisor
	// Scripts runs provisioning scripts; nil if the worker runs none.
	Scripts Scripts
	// Migration is how guests that run come to the node. It is reported.
	Migration seedbed.MigrationTarget
	// Privileged is whether Scripts runs privileged scripts. It is reported.
	Privileged bool
	// Backups is what the worker may do for backups.
	Backups Backups
	// Address returns where other nodes send the frames of overlays, and the MTU of that interface. It is reported. Nil means
	// that there is none.
	Address func() (netip.Addr, int, error)
	// Tunnel returns how other nodes send encrypted frames of overlays. It is reported. With an error, the
	// key is not known at present. Nil means that the node does not encrypt.
	Tunnel func() (seedbed.Tunnel, error)
	// LeftOut returns the networks that the node does not have, and why. It is reported. Nil means that none is known.
	LeftOut func() (map[string]string, error)
	// Probe asks hosts outside the node for addresses.
	Probe func(context.Context, []seedbed.AddressProbe) (seedbed.AddressesProbed, error)
	// Hooks runs scripts before and after stages; nil if the worker runs none.
	Hooks Hooks
	// Fences runs fence agents; nil if the worker runs none.
	Fences Fences
	// Incarnation is that of the node; nil for the first, which is not kept.
	Incarnation *Incarnation
	// Boot is another text each time the host is started. It is reported.
	Boot string
	// Frozen is the directory that records which guests are frozen. Empty records none: they stay frozen if the worker is killed.
	Frozen string
	// Checks are added to those of the drivers; nil adds none.
	Checks func(context.Context) []seedbed.Check
	Log    *slog.Logger
	// Keepalive is the longest time between two lines. Default effects.Keepalive.
	Keepalive time.Duration
	// Grace is how long a driver may take to notice that its context has ended. After that the
	// client is answered without it. Default 1 s.
	Grace time.Duration
}

// Server carries out the effects that clients request, with the drivers.
type Server struct {
	node        string
	pools       map[string]Pool
	hypervisor  Hypervisor
	scripts     Scripts
	privileged  bool
	backups     Backups
	migration   seedbed.MigrationTarget
	address     func() (netip.Addr, int, error)
	addressless complaint // it is not known
	tunnel      func() (seedbed.Tunnel, error)
	keyless     complaint // the key is not known
	leftOut     func() (map[string]string, error)
	leftUnknown complaint // it is not known
	probe       func(context.Context, []seedbed.AddressProbe) (seedbed.AddressesProbed, error)
	hooks       Hooks
	checks      func(context.Context) []seedbed.Check
	log         *slog.Logger
	fences      Fences
	incarnation *Incarnation
	boot        string
	fence       *fence
	table       effects.Handlers
	keepalive   time.Duration
	grace       time.Duration
	calls       sync.WaitGroup
	channels    httpserve.Gate
	consoles    *consoles
	screens     *screens
	freezes     *freezes
	pictures    chan struct{} // one for each screenshot that is taken
}

const (
	// lateGrace is the default of Config.Grace.
	lateGrace = time.Second
	// stopTime limits the end of Serve.
	stopTime = 10 * time.Second
	// requestTime limits the reading of one request, and writeTime the writing of one line.
	requestTime = 10 * time.Second
	writeTime   = 10 * time.Second
	// cancelTime is how long a cancel waits for the calls that it ends.
	cancelTime = 5 * time.Second
	// maxPictures limits the screenshots that are taken at the same time, each of which has up to 200 MiB in memory.
	maxPictures = 3
	// maxCalls limits the calls at the same time.
	maxCalls = 512
)

// New makes a server. It does nothing before Serve.
func New(c Config) *Server {
	s := &Server{
		node: c.Node, pools: c.Pools, hypervisor: c.Hypervisor, scripts: c.Scripts, privileged: c.Privileged, migration: c.Migration,
		address: c.Address, tunnel: c.Tunnel, leftOut: c.LeftOut, probe: c.Probe, hooks: c.Hooks, checks: c.Checks, log: c.Log,
		consoles: newConsoles(c.Hypervisor), screens: newScreens(c.Hypervisor), pictures: make(chan struct{}, maxPictures),
		backups: c.Backups, fence: newFence(time.Now), keepalive: cmp.Or(c.Keepalive, effects.Keepalive), grace: cmp.Or(c.Grace, lateGrace),
	}
	s.fences, s.incarnation, s.boot = c.Fences, cmp.Or(c.Incarnation, &Incarnation{now: time.Now}), c.Boot
	s.freezes = newFreezes(c.Hypervisor, c.Frozen, c.Log)
	s.table = s.effects()
	return s
}

// Serve answers on the listeners until ctx ends. It then ends the running calls, whose clients get
// ErrUnavailable, waits for them, and returns nil. It closes the listeners, which must decide who
// may connect. An error means that a listener broke, which ends the others, or that a driver's call
// did not end within 10 s. Serve must be called only once.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	s.freezes.begin()
	problems := make([]error, len(listeners))
	var serving sync.WaitGroup
	for i, ln := range listeners {
		serving.Go(func() {
			defer end()
			problems[i] = httpserve.Serve(ctx, ln, s.app(base), "the worker", func() {
				stop(seedbed.Errorf(seedbed.ErrUnavailable, "the worker is stopping"))
			}, stopTime)
		})
	}
	serving.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	problems = append(problems, s.wait(last))
	s.freezes.end(last)
	return errors.Join(problems...)
}

// wait waits for the calls that have not ended.
func (s *Server) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.channels.Drain()
		s.consoles.pumps.Wait()
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker: calls to a driver do not end within %s", stopTime)
	}
}

func (s *Server) app(base context.Context) *fiber.App {
	app := fiber.New(fiber.Config{
		StrictRouting: true, CaseSensitive: true, DisableStartupMessage: true,
		BodyLimit: effects.MaxRequest, StreamRequestBody: true, DisablePreParseMultipartForm: true, Concurrency: maxCalls,
		ReadTimeout: requestTime, IdleTimeout: requestTime,
		ErrorHandler: refuse,
	})
	app.Post("/v1/:effect", func(c *fiber.Ctx) error {
		name := string([]byte(c.Params("effect")))
		if name == effects.ReceiveUpload {
			return s.receive(base, c)
		}
		body, err := callBody(c)
		if err != nil {
			return err
		}
		var req effects.Request // holds only copies: the decoder makes them
		if err := json.Unmarshal(body, &req); err != nil {
			return fiber.NewError(fiber.StatusBadRequest, "the call is not readable: "+err.Error())
		}
		if name == effects.CancelCall {
			return s.cancel(base, c, req)
		}
		e, ok := s.table[name]
		if !ok || e.Run == nil {
			return noEffect(name)
		}
		if err := check(e, req); err != nil {
			return err
		}
		s.incarnation.hear(req.Incarnation)
		return s.answer(base, c, name, e, req)
	})
	app.Get("/v1/:effect", func(c *fiber.Ctx) error { return s.channel(base, c) })
	return app
}

func noEffect(name string) error {
	return fiber.NewError(fiber.StatusNotFound, fmt.Sprintf("there is no effect %q: is this worker older than its seedbedd?", name))
}

func check(e effects.Handler, req effects.Request) error {
	if e.Fenced {
		if err := seedbed.CheckName("job", string(req.Call.Job)); err != nil {
			return err
		}
	}
	if limit := effects.MaxTimeout.Milliseconds(); !e.Endless && (req.TimeoutMS <= 0 || req.TimeoutMS > limit) {
		return seedbed.Errorf(seedbed.ErrInvalid, "timeout_ms is %d: expected 1 to %d", req.TimeoutMS, limit)
	}
	return nil
}

// refuse answers a request that starts no call.
func refuse(c *fiber.Ctx, err error) error {
	status, kind := fiber.StatusBadRequest, seedbed.KindName(err)
	if f := (*fiber.Error)(nil); errors.As(err, &f) {
		status, kind = f.Code, seedbed.KindName(seedbed.ErrInvalid)
	}
	b, e := encode(effects.ErrorLine(kind, err))
	if e != nil {
		return e
	}
	c.Context().SetConnectionClose()
	c.Set(fiber.HeaderContentType, contentType)
	return c.Status(status).Send(b)
}

// cancel ends calls. It answers with their number when they have ended.
func (s *Server) cancel(base context.Context, c *fiber.Ctx, req effects.Request) error {
	if req.ID == "" {
		if err := seedbed.CheckName("job", string(req.Call.Job)); err != nil {
			return err
		}
	}
	ends, err := s.fence.stop(req.ID, req.Call)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(base, cancelTime)
	defer stop()
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			return seedbed.Errorf(seedbed.ErrUnavailable, "the call was cancelled and has not ended yet")
		}
	}
	b, err := encode(effects.Line{Result: json.RawMessage(fmt.Sprintf(`{"ended":%d}`, len(ends)))})
	if err != nil {
		return err
	}
	c.Context().SetConnectionClose()
	c.Set(fiber.HeaderContentType, contentType)
	return c.Send(b)
}
