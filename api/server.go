// Package api serves Seedbed's REST API: JSON under /api/v1, on a TCP address
// for holders of the token and on the control socket for whom its file mode
// lets in. Handlers are thin: they check the form of what comes in, call one
// interface, and answer what it says. openapi.yaml describes every route.
package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
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
	// Metadata is what the instance would get for a path of the metadata
	// address; false means 404.
	Metadata func(instance seedbed.Instance, path string) (body []byte, contentType string, ok bool)
	// Clean runs the cleanup once; force overrides its refusal of an inventory that looks wrong.
	Clean func(ctx context.Context, dryRun, force bool) (CleanupReport, error)
	// Checks are what the doctor runs, all at once, answered in this order. May be empty.
	Checks []func(ctx context.Context) []seedbed.Check
	// NewSecret draws the key of a new hook, with the text that people copy.
	NewSecret func() (key []byte, secret string)
	// CheckUserData refuses, with ErrInvalid, user-data that a profile of that policy cannot serve.
	CheckUserData func(ready seedbed.Ready, data []byte) error
	// DefaultNetwork and DefaultPool are taken where a request names none.
	DefaultNetwork, DefaultPool string
	// Token is what callers on TCP must hold; white space around it is not part of it.
	Token []byte
	// Version and Node are what health answers. May be empty.
	Version, Node string
	Log           *slog.Logger
}

// Server is the REST API.
type Server struct {
	Config
	token [sha256.Size]byte
	// waits bounds how many requests wait for events at the same time.
	waits chan struct{}
}

// New is a Server that is not serving yet.
func New(c Config) *Server {
	c.Token = bytes.TrimSpace(c.Token)
	return &Server{Config: c, token: sha256.Sum256(c.Token), waits: make(chan struct{}, concurrency/2)}
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

// single are the headers that decide something here.
var single = []string{"authorization", "x-api-key"}

func (r *router) app() *fiber.App {
	app := httpserve.New(fiber.Config{
		BodyLimit:    maxBody,
		Concurrency:  concurrency,
		ReadTimeout:  readTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout,
		ErrorHandler: r.fail,
	}, httpserve.Guard{
		Log: r.Log, Request: "an API request", Single: single, Discard: 2 * maxBody,
		Refuse: refuse,
		Bug:    httpserve.Problem{Status: fiber.StatusInternalServerError, Kind: "internal", Detail: internal},
	})
	if r.auth {
		app.Use(r.authenticate)
	}
	r.routes(app)
	return app
}
