// Package api serves Seedbed's REST API: JSON under /api/v1, on a TCP address
// for holders of the token and on the control socket for whom its file mode
// lets in. Handlers are thin: they check the form of what comes in, call one
// interface, and answer what it says. openapi.yaml describes every route.
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
	// grace is how long requests in hand may go on once the server stops.
	grace        = 10 * time.Second
	drainTimeout = readTimeout + writeTimeout + 5*time.Second
)

// Config is what a Server works with. All of it is required but what says otherwise.
type Config struct {
	Store   Store
	Intake  Intake
	Console Console
	// VolumeJobs, Snapshots and Trash are for the volumes that are there, or were.
	VolumeJobs VolumeJobs
	Snapshots  Snapshots
	Trash      Trash
	// Adoptions change whose machines are; Strangers are nobody's.
	Adoptions Adoptions
	Strangers Strangers
	// Uploads take in files, of at most MaxUpload (default 1 TiB); nil takes in none.
	Uploads   Uploads
	MaxUpload seedbed.Bytes
	// OVAs makes OVA images of them.
	OVAs OVAIntake
	// Metadata is what the instance would get for a path of the metadata
	// address; false means 404.
	Metadata func(ctx context.Context, instance seedbed.Instance, path string) (body []byte, contentType string, ok bool, err error)
	// Clean runs the cleanup once; force overrides its refusal of an inventory that looks wrong.
	Clean func(ctx context.Context, dryRun, force bool) (seedbed.CleanupReport, error)
	// Checks are what the doctor runs, all at once, answered in this order. May be empty.
	Checks []func(ctx context.Context) []seedbed.Check
	// Deliveries tests endpoints.
	Deliveries Deliveries
	// Metrics are what GET /metrics answers; nil answers 404.
	Metrics http.Handler
	// Receiving is what the receiver of webhooks knows of hooks.
	Receiving Receiving
	// SigningKey is the key of an endpoint for a version of signatures, as given or
	// else drawn, with the text that its receiver needs of one that is secret to both.
	SigningKey func(version, given string) (key seedbed.EndpointKey, secret string, err error)
	// CheckProfile refuses, with ErrInvalid, what a profile cannot serve.
	CheckProfile func(ctx context.Context, p seedbed.Profile) error
	// CheckDocument is the same for a userdata document.
	CheckDocument func(ctx context.Context, name, data string) error
	// Change changes what may change of an instance without a job, and what its guest is served with it.
	Change func(ctx context.Context, name string, change func(*seedbed.Instance) error) (seedbed.Instance, error)
	// MaxUserData bounds a user-data or vendor-data document. Default 1 MiB.
	MaxUserData seedbed.Bytes
	// DefaultNetwork and DefaultPool are taken where a request names none.
	DefaultNetwork, DefaultPool string
	// Pools are the names of the storage pools.
	Pools []string
	// Heartbeat is how often an event stream says that it is alive. Default 15 s.
	Heartbeat time.Duration
	// Patience is how long the reader of an event stream may not read. Default 10 s.
	Patience time.Duration
	// Token is what callers on TCP must hold; white space around it is not part of it.
	Token []byte
	// Version and Node are what health answers. May be empty.
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
	// waits bounds how many requests wait for events at the same time.
	waits chan struct{}
	// uploads bounds how many files are taken in at the same time.
	uploads chan struct{}
}

// New is a Server that is not serving yet.
func New(c Config) *Server {
	c.Token = bytes.TrimSpace(c.Token)
	return &Server{Config: c, token: sha256.Sum256(c.Token), sessions: newSessions(), waits: make(chan struct{}, concurrency/2), uploads: make(chan struct{}, uploadsAtOnce)}
}

// Serve answers on ln, where every request but that for the health needs the
// token, until ctx ends, and closes ln. It refuses to run with an empty token.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if len(s.Token) == 0 {
		ln.Close()
		return errors.New("serve the API: the token is empty")
	}
	return s.serve(ctx, ln, true)
}

// ServeSocket is Serve without the token: who can open the socket may do all.
func (s *Server) ServeSocket(ctx context.Context, ln net.Listener) error {
	return s.serve(ctx, ln, false)
}

// serve refuses new requests with 503 once ctx ends, lets those in hand go on
// for the grace time, and returns when all are answered.
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

// maxDocuments bounds a body that holds a user-data and a vendor-data document in base64.
func (s *Server) maxDocuments() int {
	return maxBody + 2*base64.StdEncoding.EncodedLen(int(cmp.Or(s.MaxUserData, seedbed.MiB)))
}

// single are the headers that decide something here.
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
