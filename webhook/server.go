package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/webhook/signature"

	"github.com/gofiber/fiber/v2"
)

// MaxBody is the largest body that is taken where Config does not say.
const MaxBody = 256 * seedbed.KiB

// The bounds of one listener. A drain ends within their sum: reading, the
// submit, and the writing of the answer each have their own deadline; a wait
// for a job's end is broken off.
const (
	// connections is how many are served at a time. More wait in the kernel, where
	// they cost this process nothing.
	connections = 1024
	// share is how many of them one peer may have.
	share = connections / 4
	// bodies is how many bytes of bodies are in memory at a time, or four of the
	// largest where that is more.
	bodies        = 64 << 20
	readTimeout   = 10 * time.Second
	submitTimeout = 10 * time.Second
	writeTimeout  = maxWait + submitTimeout + 10*time.Second
	idleTimeout   = 30 * time.Second
	drainTimeout  = readTimeout + submitTimeout + 15*time.Second
)

// drainBody is how much of a refused body is read.
const drainBody = 1 << 20

// Hooks is what the server reads to decide about a delivery. Hook and
// InstanceByName give ErrNotFound for a name that is not there.
type Hooks interface {
	Hook(ctx context.Context, name string) (seedbed.Hook, error)
	InstanceByName(ctx context.Context, name string) (seedbed.Instance, error)
}

// History keeps what came of deliveries.
type History interface {
	// RecordDelivery keeps one that led to no job.
	RecordDelivery(ctx context.Context, d seedbed.Delivery) error
	// Delivery gives one back, with its payload if that was kept; ErrNotFound.
	Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error)
}

// Jobs tells how a job is.
type Jobs interface {
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
	// Hint is closed at the next write.
	Hint() <-chan struct{}
}

// Intake makes jobs of requests.
type Intake interface {
	// Submit makes the job of a verified request durable before it returns. It
	// answers a delivery that was accepted before with the same job.
	Submit(ctx context.Context, r seedbed.Request, d *seedbed.Delivery) (seedbed.Receipt, error)
	// Plan says what a create would make.
	Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error)
}

// Config is what a Server works with. What is not said to have a default is required.
type Config struct {
	Hooks   Hooks
	History History
	Jobs    Jobs
	Intake  Intake
	// Queue is asked when MaxQueued is set, which is how many jobs may wait before
	// deliveries are put off.
	Queue     Queue
	MaxQueued int
	Log       *slog.Logger
	// Now is the clock that timestamps are held against; nil is time.Now.
	Now func() time.Time
	// APIBase is where senders find the REST API, such as http://127.0.0.1:7370;
	// the URLs of jobs start with it.
	APIBase string
	// MaxBody is the largest body that is taken; 0 is the constant of that name.
	MaxBody seedbed.Bytes
	// TrustedProxies are the networks whose X-Forwarded-For tells who sends.
	TrustedProxies []netip.Prefix
	// TLS is how the listener encrypts and asks for certificates; nil is not at all.
	TLS *tls.Config
	// Certificates reports whether the listener asks for any.
	Certificates bool
	// HookNow is Hooks.Hook past whatever is remembered of it; nil where nothing is.
	HookNow func(ctx context.Context, name string) (seedbed.Hook, error)
}

// Server receives webhooks.
type Server struct {
	Config
	maxBody int
	// dummyHook stands in for a hook that does not exist.
	dummyHook    seedbed.Hook
	rateLimiters rateLimiters
	compiled     compiled
	backlog      backlog
	refreshes    refreshes
	counts       counts
	bounds       bounds
	// waits bounds how many requests wait for a job's end.
	waits chan struct{}
}

// bounds are those of one listener that do not hang on how it is configured.
type bounds struct {
	connections, share, bodies int
	read                       time.Duration
}

// New is a Server that is not serving yet.
func New(c Config) *Server {
	s := &Server{Config: c, maxBody: int(cmp.Or(c.MaxBody, MaxBody)), waits: make(chan struct{}, connections/4)}
	s.dummyHook.Scheme, s.dummyHook.Keys = seedbed.SchemeStandard, []seedbed.HookKey{{ID: "none", Secret: signature.NewSecret()}}
	s.counts.make()
	s.bounds = bounds{connections: connections, share: share, bodies: max(bodies, 4*s.maxBody), read: readTimeout}
	if s.Now == nil {
		s.Now = time.Now
	}
	return s
}

// Serve answers webhooks on ln until ctx ends, and closes ln. It then refuses
// new requests with 503, and returns when those in hand are answered.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests in hand outlive ctx: each has a deadline of its own.
	r := &receiver{
		Server: s, base: context.WithoutCancel(ctx), stopping: ctx.Done(),
		conns:  newConnLimiter(ln, s.bounds.connections, s.bounds.share, s.TrustedProxies),
		bodies: httpserve.NewBudget(s.bounds.bodies),
	}
	served := net.Listener(r.conns)
	if s.TLS != nil {
		served = tls.NewListener(served, s.TLS)
	}
	return httpserve.Serve(ctx, served, r.app(), "webhooks", r.gate.Drain, drainTimeout)
}

func (r *receiver) app() *fiber.App {
	app := httpserve.New(fiber.Config{
		BodyLimit:    r.maxBody,
		Concurrency:  2 * r.bounds.connections,
		ReadTimeout:  r.bounds.read,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout,
		ErrorHandler: r.fail,
	}, httpserve.Guard{
		Log: r.Log, Request: "a webhook request", Single: signature.Deciding, Discard: drainBody,
		Refuse: write, Bug: refuse(fiber.StatusInternalServerError, "internal error"),
	})
	app.Post("/hooks/:name", r.receive)
	return app
}
