package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// MaxBody is the largest body that is taken where Config does not say.
const MaxBody = 256 * seedbed.KiB

// The bounds of one listener. A drain ends within their sum: reading, the
// submit, and the writing of the answer each have their own deadline.
const (
	concurrency   = 128
	readTimeout   = 10 * time.Second
	submitTimeout = 10 * time.Second
	writeTimeout  = 10 * time.Second
	idleTimeout   = 30 * time.Second
	drainTimeout  = readTimeout + submitTimeout + writeTimeout + 5*time.Second
)

// drainBody is how much of a refused body is read.
const drainBody = 1 << 20

// Hooks is what the server reads to decide about a delivery. Hook and
// InstanceByName give ErrNotFound for a name that is not there.
type Hooks interface {
	Hook(ctx context.Context, name string) (seedbed.Hook, error)
	InstanceByName(ctx context.Context, name string) (seedbed.Instance, error)
}

// Config is what a Server works with. Hooks, Submit and Log are required.
type Config struct {
	Hooks Hooks
	// Submit makes the job of a verified request durable before it returns. It
	// answers a delivery that was accepted before with the same job.
	Submit func(context.Context, seedbed.Request, *seedbed.Delivery) (seedbed.Receipt, error)
	Log    *slog.Logger
	// Now is the clock that timestamps are held against; nil is time.Now.
	Now func() time.Time
	// APIBase is where senders find the REST API, such as http://127.0.0.1:7370;
	// the URLs of jobs start with it.
	APIBase string
	// MaxBody is the largest body that is taken; 0 is the constant of that name.
	MaxBody seedbed.Bytes
}

// Server receives webhooks.
type Server struct {
	hooks   Hooks
	submit  func(context.Context, seedbed.Request, *seedbed.Delivery) (seedbed.Receipt, error)
	log     *slog.Logger
	now     func() time.Time
	apiBase string
	maxBody int
	// dummy stands in for the key of a hook that does not exist.
	dummy []byte
}

// New is a Server that is not serving yet.
func New(c Config) *Server {
	s := &Server{
		hooks: c.Hooks, submit: c.Submit, log: c.Log, now: c.Now, apiBase: c.APIBase,
		maxBody: int(cmp.Or(c.MaxBody, MaxBody)), dummy: NewSecret(),
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Serve answers webhooks on ln until ctx ends, and closes ln. It then refuses
// new requests with 503, and returns when those in hand are answered.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests in hand outlive ctx: each has a deadline of its own.
	r := &receiver{Server: s, base: context.WithoutCancel(ctx)}
	return httpserve.Serve(ctx, ln, r.app(), "webhooks", r.gate.Drain, drainTimeout)
}

func (r *receiver) app() *fiber.App {
	app := httpserve.New(fiber.Config{
		BodyLimit:    r.maxBody,
		Concurrency:  concurrency,
		ReadTimeout:  readTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout,
		ErrorHandler: r.fail,
	}, httpserve.Guard{
		Log: r.log, Request: "a webhook request", Single: attemptHeaders, Discard: drainBody,
		Refuse: write, Bug: refuse(fiber.StatusInternalServerError, "internal error"),
	})
	app.Post("/hooks/:name", r.receive)
	return app
}
