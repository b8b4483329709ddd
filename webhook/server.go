package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/internal/throttle"
	"seedbed/webhook/signature"

	"github.com/gofiber/fiber/v2"
)

// MaxBody is the largest body if Config does not set one.
const MaxBody = 256 * seedbed.KiB

// The bounds of one listener. A drain ends within their sum: reading, submitting, and writing the
// answer each have their own deadline, and waiting for the end of a job is interrupted.
const (
	// connections is how many connections are served at a time. More wait in the kernel, where they
	// do not use resources of this process.
	connections = 1024
	// share is how many connections one peer may have.
	share = connections / 4
	// bodies is how many bytes of bodies are in memory at a time, or as many of the largest bodies as
	// there are shares if that is more. One peer may have one of the shares.
	bodies        = 64 << 20
	bodyShares    = 8
	readTimeout   = 10 * time.Second
	submitTimeout = 10 * time.Second
	writeTimeout  = maxWait + submitTimeout + 10*time.Second
	idleTimeout   = 30 * time.Second
	drainTimeout  = readTimeout + submitTimeout + 15*time.Second
)

// drainBody is how much of a refused body is read.
const drainBody = 1 << 20

// Hooks is what the server reads to decide about a delivery. Hook and InstanceByName return
// ErrNotFound for an unknown name.
type Hooks interface {
	Hook(ctx context.Context, name string) (seedbed.Hook, error)
	InstanceByName(ctx context.Context, n seedbed.InstanceName) (seedbed.Instance, error)
	// Resolve returns the qualified name of what a project means by a name; ErrNotFound if it may use nothing
	// of that name.
	Resolve(ctx context.Context, kind seedbed.PublishedKind, project, name string) (string, error)
}

// History stores the outcome of deliveries.
type History interface {
	// RecordDelivery stores a delivery that did not make a job. It does not replace one that is done.
	RecordDelivery(ctx context.Context, d seedbed.Delivery) error
	// RecordRejections adds to the counts of deliveries whose sender was not accepted.
	RecordRejections(ctx context.Context, all []seedbed.Rejection) error
	// Delivery returns a stored delivery, with its payload if that was kept; ErrNotFound if there
	// is none.
	Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error)
	// EarlierReceipt returns the receipt of a delivery that was accepted before, or nil if it was
	// not. That of one that was done without a job has none. It returns ErrConflict if the delivery's ID was accepted with another body.
	EarlierReceipt(ctx context.Context, d seedbed.Delivery) (*seedbed.Receipt, error)
}

// Jobs reads the state of jobs.
type Jobs interface {
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
	// Hint is closed at the next write.
	Hint() <-chan struct{}
}

// Intake makes jobs from requests.
type Intake interface {
	// Submit makes the job of a verified request durable before it returns. It answers a delivery
	// that was accepted before with the same job.
	Submit(ctx context.Context, r seedbed.Request, d *seedbed.Delivery) (seedbed.Receipt, error)
	// Plan returns what a create request would make.
	Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error)
}

// Config configures a Server. Fields without a stated default are required.
type Config struct {
	Hooks   Hooks
	History History
	Jobs    Jobs
	Intake  Intake
	// Networks is used by hooks that may ask for actions without a job.
	Networks Networks
	// Queue is used if MaxQueued is set, which is how many jobs may wait before deliveries are
	// deferred.
	Queue     Queue
	MaxQueued int
	Log       *slog.Logger
	// Now is the clock that timestamps are compared with; nil means time.Now.
	Now func() time.Time
	// APIBase is where senders find the REST API, such as http://127.0.0.1:7370; the URLs of jobs
	// start with it.
	APIBase string
	// MaxBody is the largest body; 0 means the constant of that name.
	MaxBody seedbed.Bytes
	// TrustedProxies are the networks whose X-Forwarded-For is trusted to name the sender.
	TrustedProxies []netip.Prefix
	// TLS configures how the listener encrypts and asks for certificates; nil means no TLS.
	TLS *tls.Config
	// Certificates reports whether the listener asks for any.
	Certificates bool
	// HookNow is like Hooks.Hook but bypasses its cache; nil if it has no cache.
	HookNow func(ctx context.Context, name string) (seedbed.Hook, error)
	// ProjectRates returns the rates of a project. It is called for each verified delivery, and so must be
	// cached. Nil means that no project has a rate.
	ProjectRates func(ctx context.Context, name string) (seedbed.RateQuota, error)
}

// Server receives webhooks.
type Server struct {
	Config
	maxBody int
	// dummyKey stands in for the key of a hook that does not exist.
	dummyKey     []byte
	rateLimiters rateLimiters
	// rates are those of projects.
	rates      throttle.Limiter
	compiled   compiled
	backlog    backlog
	refreshes  refreshes
	counts     counts
	rejections rejections
	bounds     bounds
	// waits bounds how many requests wait for a job's end.
	waits chan struct{}
}

// bounds are the bounds of one listener that do not depend on its configuration.
type bounds struct {
	connections, share, bodies int
	read                       time.Duration
}

// New returns a Server that is not serving yet.
func New(c Config) *Server {
	s := &Server{Config: c, maxBody: int(cmp.Or(c.MaxBody, MaxBody)), dummyKey: signature.NewSecret(),
		waits: make(chan struct{}, connections/4)}
	s.counts.make()
	s.rejections.seen, s.rejections.more = map[rejected]*seedbed.Rejection{}, make(chan struct{}, 1)
	s.bounds = bounds{connections: connections, share: share, bodies: max(bodies, bodyShares*(s.maxBody+1)), read: readTimeout}
	if s.Now == nil {
		s.Now = time.Now
	}
	return s
}

// Serve answers webhooks on ln until ctx ends, and closes ln. It then refuses new requests with
// 503, and returns once running ones are answered.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Running requests outlive ctx; each has its own deadline.
	r := &receiver{
		Server: s, base: context.WithoutCancel(ctx), stopping: ctx.Done(),
		conns:  httpserve.NewConnLimiter(ln, s.bounds.connections, s.bounds.share, s.TrustedProxies),
		bodies: httpserve.NewBudget(s.bounds.bodies, s.bounds.bodies/bodyShares),
	}
	served := net.Listener(r.conns)
	if s.TLS != nil {
		served = tls.NewListener(served, s.TLS)
	}
	counting, counted := context.WithCancel(r.base)
	var group sync.WaitGroup
	group.Go(func() { s.rejections.run(counting, s.History, s.Log) })
	defer group.Wait()
	defer counted()
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
	app.Post("/hooks/:project/:name", r.receive)
	return app
}
