// Package api serves Seedbed's REST API: JSON under /api/v1. It listens on a TCP address, where
// callers need a token, and on the control socket, where the socket's file mode decides who may
// connect. Handlers are thin: they check the form of a request, call one interface, and answer its
// result. openapi.yaml describes every route.
package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
)

// The bounds of one listener.
const (
	concurrency  = 256
	maxBody      = 2 << 20
	readTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = time.Minute
	// grace is how long running requests may continue once the server stops.
	grace        = 10 * time.Second
	drainTimeout = readTimeout + writeTimeout + 5*time.Second
)

// Config holds what a Server works with. Every field is required unless its comment says otherwise.
type Config struct {
	Store   Store
	Intake  Intake
	Console Console
	// VolumeJobs, Snapshots and Trash work on volumes that exist or have been removed.
	VolumeJobs VolumeJobs
	Snapshots  Snapshots
	Trash      Trash
	// Adoptions starts and stops managing domains. Strangers lists the domains that belong to no
	// instance.
	Adoptions Adoptions
	Strangers Strangers
	// Uploads receives files of at most MaxUpload (default 1 TiB). If it is nil, uploads are
	// refused.
	Uploads   Uploads
	MaxUpload seedbed.Bytes
	// OVAs makes OVA images from uploaded files.
	OVAs OVAIntake
	// Metadata returns what the instance would get for a path of the metadata address. ok is false
	// for 404.
	Metadata func(ctx context.Context, instance seedbed.Instance, path string) (body []byte, contentType string, ok bool, err error)
	// Clean runs the cleanup once; force overrides its refusal of an inventory that looks wrong.
	Clean func(ctx context.Context, dryRun, force bool) (seedbed.CleanupReport, error)
	// Checks are the doctor's checks. They run concurrently and are answered in this order. May be
	// empty.
	Checks []func(ctx context.Context) []seedbed.Check
	// Deliveries tests endpoints.
	Deliveries Deliveries
	// Metrics answers GET /metrics. If it is nil, the answer is 404.
	Metrics http.Handler
	// Receiving holds the functions of the webhook receiver.
	Receiving Receiving
	// SigningKey returns an endpoint's key for a version of signatures, from the given text or
	// newly generated. secret is the text that the receiver needs if the key is symmetric.
	SigningKey func(version, given string) (key seedbed.EndpointKey, secret string, err error)
	// CheckProfile returns ErrInvalid for a profile that cannot be served.
	CheckProfile func(ctx context.Context, p seedbed.Profile) error
	// CheckDocument is the same for a user-data document.
	CheckDocument func(ctx context.Context, name, data string) error
	// Change changes the fields of an instance that need no job, and what its guest is served.
	Change func(ctx context.Context, name string, change func(*seedbed.Instance) error) (seedbed.Instance, error)
	// MaxUserData bounds a user-data or vendor-data document. Default 1 MiB.
	MaxUserData seedbed.Bytes
	// DefaultNetwork and DefaultPool are the defaults of requests that name none.
	DefaultNetwork, DefaultPool string
	// Pools are the names of the storage pools.
	Pools []string
	// Heartbeat is the interval of an event stream's signs of life. Default 15 s.
	Heartbeat time.Duration
	// Patience is how long an event stream waits for a reader that does not read. Default 10 s.
	Patience time.Duration
	// Token is the token that callers on TCP need. Surrounding white space is ignored.
	Token []byte
	// Version and Node are part of the health answer. May be empty.
	Version, Node string
	Log           *slog.Logger
}

// Server is the REST API.
type Server struct {
	Config
	token    [sha256.Size]byte
	guesses  guesses
	sessions sessions
	streams  streams
	// waits bounds the number of requests that wait for events concurrently.
	waits chan struct{}
	// uploads bounds the number of concurrent uploads.
	uploads chan struct{}
}

// New returns a Server that does not serve yet.
func New(c Config) *Server {
	c.Token = bytes.TrimSpace(c.Token)
	return &Server{Config: c, token: sha256.Sum256(c.Token), sessions: newSessions(), waits: make(chan struct{}, concurrency/2), uploads: make(chan struct{}, uploadsAtOnce)}
}

// Serve answers on ln until ctx ends, and then closes ln. Requests need a token, except those for
// the health, the login and the API's root. Serve refuses to run with an empty token.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if len(s.Token) == 0 {
		ln.Close()
		return errors.New("serve the API: the token is empty")
	}
	return s.serve(ctx, ln, true)
}

// ServeSocket is like Serve without authentication: anyone who can open the socket has full access.
func (s *Server) ServeSocket(ctx context.Context, ln net.Listener) error {
	return s.serve(ctx, ln, false)
}

// serve refuses new requests with 503 once ctx ends. It lets running requests continue for the
// grace time, and returns when all are answered.
func (s *Server) serve(ctx context.Context, ln net.Listener, auth bool) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &router{Server: s, auth: auth, base: base, stopping: ctx.Done()}
	drain := func() {
		end := time.AfterFunc(grace, cancel)
		defer end.Stop()
		r.gate.Drain()
	}
	return httpserve.Serve(ctx, ln, r.app(), "the API", drain, drainTimeout)
}

// maxDocuments returns the bound of a body that holds a user-data and a vendor-data document in
// base64.
func (s *Server) maxDocuments() int {
	return maxBody + 2*base64.StdEncoding.EncodedLen(int(cmp.Or(s.MaxUserData, seedbed.MiB)))
}

// single holds the headers on which a decision depends, so that they may occur only once.
var single = []string{"authorization", "x-api-key", "cookie", "if-match", "last-event-id", "content-digest", "repr-digest", "digest"}

func (r *router) app() *fiber.App {
	app := httpserve.New(fiber.Config{
		BodyLimit:    r.maxDocuments(),
		Concurrency:  concurrency,
		ReadTimeout:  readTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout,
		ErrorHandler: r.fail,
	}, httpserve.Guard{
		Log: r.Log, Request: "an API request", Single: single, Discard: 2 * r.maxDocuments(),
		Refuse: refuse,
		Bug:    httpserve.Problem{Status: fiber.StatusInternalServerError, Kind: "internal", Detail: internal},
	})
	if r.auth {
		app.Use(r.authenticate)
	} else {
		app.Use(r.local)
	}
	r.register(app)
	app.Use(r.authorizePVC)
	r.pvcRoutes(app)
	if r.Metrics != nil {
		app.Get(metricsPath, adaptor.HTTPHandler(r.Metrics))
	}
	return app
}
