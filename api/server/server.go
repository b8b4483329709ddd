// Package server has what both kinds of routes of the API stand on: one listener with its tables of
// routes, the authentication of callers, the form of bodies and errors, pages, entity tags,
// streams, uploads, and the audit of requests.
package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/internal/throttle"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/valyala/fasthttp"
)

// metricsPath is the path from which Prometheus scrapes.
const metricsPath = "/metrics"

// The bounds of one listener.
const (
	// connections is how many connections of callers with tokens are served at a time; more wait in the
	// kernel. One peer may have ShareOfConnections of them, unless it is this host.
	connections        = requests + streamsMost + channelsMost
	ShareOfConnections = connections / 4
	// requests is how many connections there are for other things than streams of events and consoles.
	requests = 256

	// MaxBody bounds the body of most requests, and MaxCatalogue the JSON of a catalogue.
	MaxBody      = 2 << 20
	MaxCatalogue = 16 << 20
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
	Domains Domains
	// Terminals opens consoles and screens.
	Terminals Terminals
	// VolumeJobs, Snapshots and Trash work on volumes that exist or have been removed.
	VolumeJobs VolumeJobs
	Snapshots  Snapshots
	Trash      Trash
	// Backups reaches the targets of backups, and BackupJobs makes jobs on backups.
	Backups    Backups
	BackupJobs BackupJobs
	// Schedules runs the schedules of backups and snapshots.
	Schedules Schedules
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
	// CheckProfile returns ErrInvalid for a profile that cannot be served. It reads what the profile
	// names from parts.
	CheckProfile func(ctx context.Context, parts seedbed.PartReader, p seedbed.Profile) error
	// CheckDocument is the same for a user-data document.
	CheckDocument func(ctx context.Context, name, data string) error
	// Change changes the fields of an instance that need no job, and what its guest is served.
	Change func(ctx context.Context, n seedbed.InstanceName, change func(*seedbed.Instance) error) (seedbed.Instance, error)
	// Probe asks the hosts of the networks that a node bridges whether they use addresses. If it is nil, no host is asked.
	Probe func(ctx context.Context, node string, asked []seedbed.AddressProbe) (seedbed.AddressesProbed, error)
	// Usage returns what the domains of nodes have used. A node that does not answer says so.
	Usage func(ctx context.Context, nodes []string) []seedbed.NodeUsage
	// Fencing fences nodes.
	Fencing Fencing
	// MaxUserData bounds a user-data or vendor-data document. Default 1 MiB.
	MaxUserData seedbed.Bytes
	// DefaultNetwork and DefaultPool are the defaults of requests that name none.
	DefaultNetwork, DefaultPool string
	// Resolvers are those of a new network with a prefix that names none. NetworkPrefixes are those in which
	// projects other than the default one may make networks.
	Resolvers       []netip.Addr
	NetworkPrefixes []netip.Prefix
	// PVCUplink is the uplink of the bridged networks that PVC's clients make; without it, they make none.
	PVCUplink string
	// Pools are the names of the storage pools.
	Pools []string
	// Heartbeat is the interval of an event stream's signs of life. Default 15 s.
	Heartbeat time.Duration
	// ChannelIdle is how long a console or screen is kept open in which nothing is sent. Default 1 h.
	ChannelIdle time.Duration
	// Patience is how long an event stream waits for a reader that does not read. Default 10 s.
	Patience time.Duration
	// TLS configures how the listener with tokens encrypts; nil means no TLS.
	TLS *tls.Config
	// Token is the token that callers on TCP need. Surrounding white space is ignored.
	Token []byte
	// Description is the description of every route, in OpenAPI's form.
	Description string
	// SignIn is how people sign in; nil if they do not.
	SignIn *SignIn
	// Version and Node are part of the health answer. May be empty.
	Version, Node string
	Log           *slog.Logger
}

// Server is the REST API.
type Server struct {
	Config
	token   [sha256.Size]byte
	guesses guesses
	// rates are those of projects.
	rates    throttle.Limiter
	sessions sessions
	streams  shares
	channels shares
	// waits bounds the number of requests that wait for events concurrently.
	waits   chan struct{}
	uploads shares
	// pictures bounds the number of screenshots that are taken concurrently.
	pictures chan struct{}
}

// maxPictures is how many screenshots are taken at a time, each of which is in memory.
const maxPictures = 4

// Screenshot returns what an instance's screen shows, as a PNG. It waits while many others are taken.
func (s *Server) Screenshot(ctx context.Context, i seedbed.Instance) ([]byte, error) {
	select {
	case s.pictures <- struct{}{}:
		defer func() { <-s.pictures }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Terminals.Screenshot(ctx, i.Node, i.ID)
}

// New returns a Server that does not serve yet.
func New(c Config) *Server {
	c.Token = bytes.TrimSpace(c.Token)
	key := make([]byte, 32)
	rand.Read(key) // never fails (crypto/rand)
	if c.SignIn != nil {
		key = c.SignIn.Key
	}
	return &Server{Config: c, token: sha256.Sum256(c.Token), sessions: newSessions(key), waits: make(chan struct{}, requests/2),
		streams: shares{each: streamsEach, most: streamsMost}, uploads: shares{each: uploadsEach, most: uploadsMost},
		channels: shares{each: channelsEach, most: channelsMost}, pictures: make(chan struct{}, maxPictures)}
}

// Serve answers on ln until ctx ends, and then closes ln. With auth, requests need a token, except
// those of routes for anyone. tables returns the routes. serve refuses new requests with 503 once ctx
// ends. It lets running requests continue for the grace time, and returns when all are answered.
func (s *Server) Serve(ctx context.Context, ln net.Listener, auth bool, tables func(*Router) []Table) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &Router{Server: s, auth: auth, base: base, stopping: ctx.Done(), open: map[string]bool{}}
	if auth {
		r.conns = httpserve.NewConnLimiter(ln, connections, ShareOfConnections, nil)
		if ln = r.conns; s.TLS != nil {
			ln = tls.NewListener(ln, s.TLS)
		}
	}
	drain := func() {
		end := time.AfterFunc(grace, cancel)
		defer end.Stop()
		r.gate.Drain()
	}
	return httpserve.Serve(ctx, ln, r.app(tables(r)), "the API", drain, drainTimeout)
}

// MaxDocuments returns the bound of a body that holds a user-data and a vendor-data document in
// base64.
func (s *Server) MaxDocuments() int {
	return MaxBody + 2*base64.StdEncoding.EncodedLen(int(cmp.Or(s.MaxUserData, seedbed.MiB)))
}

// single holds the headers on which a decision depends, so that they may occur only once.
var single = []string{"authorization", "x-api-key", "cookie", "if-match", "idempotency-key", "last-event-id",
	"content-digest", "repr-digest", "digest", "origin", "sec-fetch-site"}

// app returns the handler of one listener.
func (r *Router) app(tables []Table) *fiber.App {
	// answering returns the table that a path belongs to. Other paths are answered with problem
	// documents.
	answering := func(path string) *Table {
		for i := range tables {
			if t := &tables[i]; t.Owns != nil && t.Owns(path) {
				return t
			}
		}
		return nil
	}
	app := httpserve.New(fiber.Config{
		BodyLimit:    r.MaxDocuments(),
		Concurrency:  2 * connections,
		ReadTimeout:  readTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout,
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			if t := answering(c.Path()); t != nil {
				return t.Fail(c, err)
			}
			return r.fail(c, err)
		},
	}, httpserve.Guard{
		Log: r.Log, Request: "an API request", Single: single, Discard: 2 * r.MaxDocuments(),
		Refuse: func(ctx *fasthttp.RequestCtx, p httpserve.Problem) {
			if t := answering(string(ctx.URI().PathOriginal())); t != nil {
				t.Refuse(ctx, p)
				return
			}
			answered(ProblemOf(p)).Write(ctx)
		},
		Bug: httpserve.Problem{Status: fiber.StatusInternalServerError, Kind: "internal", Detail: internal},
	})
	if r.auth {
		app.Use(r.makeRoom, r.authenticate)
	} else {
		app.Use(r.local)
	}
	for _, t := range tables {
		r.register(app, t)
	}
	if r.Metrics != nil {
		app.Get(metricsPath, adaptor.HTTPHandler(r.Metrics))
	}
	return app
}
