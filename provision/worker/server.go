package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// Config is what a server needs.
type Config struct {
	// Node is the name of this host.
	Node string
	// Pools are the storage pools by name.
	Pools map[string]Pool
	// Hypervisor runs the domains.
	Hypervisor Hypervisor
	// Scripts runs provisioning scripts; nil for a worker that runs none.
	Scripts Scripts
	Log     *slog.Logger
}

// Server carries out the effects that clients ask for, with the drivers.
type Server struct {
	node       string
	pools      map[string]Pool
	hypervisor Hypervisor
	scripts    Scripts
	log        *slog.Logger
	fence      *fence
	table      map[string]effect
	keepalive  time.Duration
	grace      time.Duration
	calls      sync.WaitGroup
}

const (
	// lateGrace is how long a driver may take to notice that its context has
	// ended before the client is answered without it.
	lateGrace = time.Second
	// stopTime bounds the end of Serve.
	stopTime = 10 * time.Second
	// requestTime bounds the reading of one request, and writeTime the writing of one line.
	requestTime = 10 * time.Second
	writeTime   = 10 * time.Second
	// cancelTime is how long a cancel waits for the end of what it cancels.
	cancelTime = 5 * time.Second
	// maxCalls bounds the calls at the same time.
	maxCalls = 512
)

// New makes a server that has not started.
func New(c Config) *Server {
	s := &Server{node: c.Node, pools: c.Pools, hypervisor: c.Hypervisor, scripts: c.Scripts, log: c.Log, fence: newFence(time.Now),
		keepalive: keepalive, grace: lateGrace}
	s.table = s.effects()
	return s
}

// Serve answers on ln until ctx ends; then it ends the running calls, whose
// clients get ErrUnavailable, waits for them, and returns nil. It closes ln. An error means
// that the listener broke, or that a driver's call did not end within 10 s.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	app := s.app(base)
	served := make(chan error, 1)
	go func() {
		served <- app.Listener(ln)
		close(served)
	}()
	var err error
	select {
	case e := <-served:
		err = fmt.Errorf("worker socket: %w", errors.Join(e, net.ErrClosed))
	case <-ctx.Done():
	}
	stop(seedbed.Errorf(seedbed.ErrUnavailable, "the worker is stopping"))
	// The listener is closed here too: Shutdown does not know one that is not served yet.
	for _, e := range []error{ln.Close(), <-served} {
		if e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if e := app.ShutdownWithContext(last); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, fmt.Errorf("worker: clients are still connected: %w", e))
	}
	return errors.Join(err, s.wait(last))
}

// wait waits for the calls that have not ended.
func (s *Server) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
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
		BodyLimit: maxRequest, StreamRequestBody: true, DisablePreParseMultipartForm: true, Concurrency: maxCalls, ReadTimeout: requestTime, IdleTimeout: requestTime,
		ErrorHandler: refuse,
	})
	app.Post("/v1/:effect", func(c *fiber.Ctx) error {
		name := string([]byte(c.Params("effect")))
		if name == receiveUpload {
			return s.receive(base, c)
		}
		body, err := callBody(c)
		if err != nil {
			return err
		}
		var req request // holds copies only: the decoder makes them
		if err := json.Unmarshal(body, &req); err != nil {
			return fiber.NewError(fiber.StatusBadRequest, "the call is not readable: "+err.Error())
		}
		if name == cancelCall {
			return s.cancel(base, c, req)
		}
		e, ok := s.table[name]
		if !ok {
			return fiber.NewError(fiber.StatusNotFound, fmt.Sprintf("there is no effect %q: is this worker older than its seedbedd?", name))
		}
		if err := check(e, req); err != nil {
			return err
		}
		return s.answer(base, c, name, e, req)
	})
	return app
}

func check(e effect, req request) error {
	if e.fenced {
		if err := seedbed.CheckName("job", string(req.Call.Job)); err != nil {
			return err
		}
	}
	if limit := maxTimeout.Milliseconds(); !e.endless && (req.TimeoutMS <= 0 || req.TimeoutMS > limit) {
		return seedbed.Errorf(seedbed.ErrInvalid, "timeout_ms is %d: want 1 to %d", req.TimeoutMS, limit)
	}
	return nil
}

// refuse answers a request that starts no call.
func refuse(c *fiber.Ctx, err error) error {
	status, kind := fiber.StatusBadRequest, seedbed.KindName(err)
	if f := (*fiber.Error)(nil); errors.As(err, &f) {
		status, kind = f.Code, seedbed.KindName(seedbed.ErrInvalid)
	}
	b, e := encode(line{Error: &wireError{Kind: kind, Message: err.Error()}})
	if e != nil {
		return e
	}
	c.Context().SetConnectionClose()
	c.Set(fiber.HeaderContentType, contentType)
	return c.Status(status).Send(b)
}

// cancel ends calls, and answers when they have ended, with their number.
func (s *Server) cancel(base context.Context, c *fiber.Ctx, req request) error {
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
	b, err := encode(line{Result: json.RawMessage(fmt.Sprintf(`{"ended":%d}`, len(ends)))})
	if err != nil {
		return err
	}
	c.Context().SetConnectionClose()
	c.Set(fiber.HeaderContentType, contentType)
	return c.Send(b)
}
