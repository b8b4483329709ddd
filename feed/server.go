package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/internal/httpserve"
)

// Source is what the server reads from.
type Source interface {
	// FeedPage returns everything newer than since for the node, or a snapshot if that is not known
	// or the generation differs.
	FeedPage(ctx context.Context, node string, since int64, generation string) (seedbed.FeedPage, error)
	// Peers returns the node's peers that changed after revision since, or a snapshot if that is not known or the
	// generation differs.
	Peers(ctx context.Context, node string, since int64, generation string) (seedbed.PeerPage, error)
	// Hint is closed at the next committed write of this process.
	Hint() <-chan struct{}
	// FeedHint is closed at the next write of a record that a job waits for. Other writes may also
	// change what a node serves.
	FeedHint() <-chan struct{}
}

// Sink receives what guest planes report.
type Sink interface {
	// SetApplied records the revision that a node serves.
	SetApplied(ctx context.Context, node string, revision int64, at time.Time) error
	// AddGuestEvents stores events. It ignores those that it already has.
	AddGuestEvents(ctx context.Context, node, spool string, events []seedbed.GuestEvent) error
}

// Store is what the server needs from package store.
type Store interface {
	Source
	Sink
}

const (
	maxWait     = time.Minute
	pollEvery   = time.Second           // the hint is only for writes of this process
	settle      = 20 * time.Millisecond // most writes concern something else; query the store once for several
	storeTime   = 30 * time.Second
	serverGrace = 5 * time.Second
)

// Server is the seedbedd side of the feed.
type Server struct {
	store Store
	log   *slog.Logger
	polls polls
}

// NewServer returns a server on store.
func NewServer(store Store, log *slog.Logger) *Server { return &Server{store: store, log: log} }

// serve answers the callers that admit accepts on ln until ctx ends, which ends waiting polls at
// once, and then returns nil.
func (s *Server) serve(ctx context.Context, ln net.Listener, admit func(context.Context, *fiber.Ctx) (caller, error)) error {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	err := httpserve.Serve(ctx, ln, s.app(serving, admit), "feed", cancel, serverGrace)
	if ctx.Err() != nil && err != nil {
		s.log.Warn("feed connections were left open", "err", err)
		return nil
	}
	return err
}

// app is the router. It answers only callers that admit accepts.
func (s *Server) app(ctx context.Context, admit func(context.Context, *fiber.Ctx) (caller, error)) *fiber.App {
	app := fiber.New(fiber.Config{
		AppName: "seedbed-feed", StrictRouting: true, CaseSensitive: true, DisableStartupMessage: true,
		DisablePreParseMultipartForm: true, BodyLimit: maxEventsBody, Concurrency: 1024,
		ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorHandler: s.problem,
	})
	app.Server().MaxIdleWorkerDuration = time.Second
	app.Use(func(c *fiber.Ctx) error {
		who, err := admit(ctx, c)
		if err != nil {
			return err
		}
		c.Locals(callerKey, who)
		return c.Next()
	})
	with := func(h func(context.Context, *fiber.Ctx) error) fiber.Handler {
		return func(c *fiber.Ctx) error { return h(ctx, c) }
	}
	app.Get("/v1/feed", with(s.feed))
	app.Get("/v1/blobs/:sha256", with(s.blob))
	app.Post("/v1/applied", with(s.applied))
	app.Post("/v1/events", with(s.events))
	return app
}

func (s *Server) feed(ctx context.Context, c *fiber.Ctx) error {
	node := strings.Clone(c.Query("node"))
	if err := checkNode(node); err != nil {
		return err
	}
	if err := callerOf(c).about(node); err != nil {
		return err
	}
	at := position{generation: strings.Clone(c.Query("generation")), peers: noPeers}
	var err error
	if at.revision, err = strconv.ParseInt(c.Query("since", "0"), 10, 64); err != nil || at.revision < 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "since %.40q is not a revision", c.Query("since"))
	}
	if peers := c.Query("peers"); peers != "" {
		if at.peers, err = strconv.ParseInt(peers, 10, 64); err != nil || at.peers < 0 {
			return seedbed.Errorf(seedbed.ErrInvalid, "peers %.40q is not a revision", peers)
		}
	}
	wait, err := time.ParseDuration(c.Query("wait", "0s"))
	if err != nil || wait < 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "wait %.40q is not a duration such as 30s", c.Query("wait"))
	}
	page, err := s.poll(ctx, node, at, min(wait, maxWait))
	if err != nil {
		return err
	}
	c.Context().SetContentType(fiber.MIMEApplicationJSON)
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		if err := writePage(w, page); err != nil {
			s.log.Warn("send feed", "node", node, "err", err)
		}
	})
	return nil
}

// position is how far a client has followed the feed.
type position struct {
	generation string
	revision   int64
	peers      int64 // the revision of its peers, or noPeers
}

// noPeers is the position of a client that does not follow peers, because it is of a release before 0.4.0.
const noPeers = -1

// poll answers at once if something is newer than the position. Otherwise it answers at the next change,
// after wait, at the end of ctx, or when too many other polls of the node have begun to wait. It
// sends at once what a job waits for: the guest plane polls again after applying that, and then
// gets what has come since. It looks for peers at first and then once in pollEvery, and answers for them alone only
// then, so that changes of other nodes cost this one at most that many pages.
func (s *Server) poll(ctx context.Context, node string, at position, wait time.Duration) (seedbed.FeedPage, error) {
	var superseded <-chan struct{}
	if wait > 0 {
		place, leave := s.polls.enter(node)
		defer leave()
		superseded = place
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var peers *seedbed.PeerPage
	look, ticked := true, false
	for {
		news, hint := s.store.FeedHint(), s.store.Hint() // before reading, so that no write falls between
		page, err := s.page(ctx, node, at)
		if err != nil {
			return page, err
		}
		if look {
			peers, look = s.peers(ctx, node, at), false
		}
		page.Peers = peers
		if page.Snapshot || len(page.Changes) > 0 || page.Revision != at.revision || page.Generation != at.generation ||
			ticked && peers != nil {
			return page, nil
		}
		select {
		case <-news:
		case <-hint:
			sleepUntil(ctx, news, settle)
		case <-tick.C:
			look, ticked = true, true
		case <-over.C:
			return page, nil
		case <-superseded:
			return page, nil
		case <-ctx.Done():
			return page, nil
		}
	}
}

func (s *Server) page(ctx context.Context, node string, at position) (seedbed.FeedPage, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return s.store.FeedPage(ctx, node, at.revision, at.generation)
}

// peers returns what is new of the node's peers, or nil. If they cannot be read, the node waits for them, but not for its own
// guests.
func (s *Server) peers(ctx context.Context, node string, at position) *seedbed.PeerPage {
	if at.peers == noPeers {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	page, err := s.store.Peers(ctx, node, at.peers, at.generation)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("read peers", "node", node, "err", err)
	}
	if err != nil || !page.Snapshot && page.Revision == at.peers {
		return nil
	}
	return &page
}

// sleepUntil waits for d, news or the end of ctx.
func sleepUntil(ctx context.Context, news <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news:
	case <-ctx.Done():
	}
}

// writePage writes the page as JSON, record by record: a snapshot may be large.
func writePage(w *bufio.Writer, page seedbed.FeedPage) error {
	changes := page.Changes
	page.Changes = []seedbed.FeedChange{}
	head, err := json.Marshal(page)
	if err != nil {
		return err
	}
	before, after, ok := strings.Cut(string(head), `"changes":[]`)
	if !ok {
		return errors.New("page has no changes member")
	}
	w.WriteString(before + `"changes":[`)
	for i, c := range changes {
		b, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if i > 0 {
			w.WriteByte(',')
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	w.WriteString("]" + after)
	return w.Flush()
}

func (s *Server) blob(ctx context.Context, c *fiber.Ctx) error {
	sum := strings.Clone(c.Params("sha256"))
	if !sha256Form.MatchString(sum) {
		return seedbed.Errorf(seedbed.ErrInvalid, "%.80q is not a lower-case SHA-256", sum)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	who := callerOf(c)
	data, err := who.guests.NodeBlob(ctx, who.node, sum)
	if err != nil {
		return err
	}
	c.Context().SetContentType(blobContentType)
	c.Context().Response.SetBodyRaw(data)
	return nil
}

func (s *Server) applied(ctx context.Context, c *fiber.Ctx) error {
	var b appliedBody
	if body := c.Request().Body(); len(body) > maxAppliedBody {
		return seedbed.Errorf(seedbed.ErrInvalid, "body has %d bytes, expected at most %d", len(body), maxAppliedBody)
	} else if err := json.Unmarshal(body, &b); err != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "applied: %v", err)
	}
	if err := checkNode(b.Node); err != nil {
		return err
	}
	if err := callerOf(c).about(b.Node); err != nil {
		return err
	}
	if b.Revision < 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "revision %d is negative", b.Revision)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := s.store.SetApplied(ctx, b.Node, b.Revision, time.Now()); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

func (s *Server) events(ctx context.Context, c *fiber.Ctx) error {
	node, spool, events, err := decodeEvents(c.Request().Body())
	if err != nil {
		return err
	}
	if err := callerOf(c).about(node); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if events, err = s.ownEvents(ctx, callerOf(c), events); err != nil {
		return err
	}
	if err := s.store.AddGuestEvents(ctx, node, spool, events); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

// problem answers an error with its kind.
func (s *Server) problem(c *fiber.Ctx, err error) error {
	status, message := http.StatusInternalServerError, err.Error()
	var fe *fiber.Error
	switch {
	case errors.As(err, &fe):
		status = fe.Code
	case errors.Is(err, seedbed.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, seedbed.ErrInvalid):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, seedbed.ErrForbidden):
		status = http.StatusForbidden
	case errors.Is(err, seedbed.ErrUnauthenticated):
		status = http.StatusUnauthorized
	case errors.Is(err, seedbed.ErrUnavailable):
		status = http.StatusServiceUnavailable
	default:
		s.log.Error("feed request failed", "method", c.Method(), "path", strings.Clone(c.Path()), "err", err)
		message = "internal error, see the log of seedbedd"
	}
	return c.Status(status).JSON(errorBody{Kind: seedbed.KindName(err), Message: message})
}
