package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"seedbed"
)

// Applier serves what the feed delivers. Apply may be called with the same state again. An error
// means that the state is not served; the client then retries.
type Applier interface {
	Apply(ctx context.Context, state seedbed.GuestPlaneState) error
}

// ClientConfig configures a Client. All fields except Remotes, Hold and Wait must be set.
type ClientConfig struct {
	// Socket is the path of seedbedd's feed socket, unless there are Remotes.
	Socket string
	// Remotes are the control hosts that serve the feed over TLS. The client follows one until that
	// does not answer, and then the next.
	Remotes []Remote
	// Node is the name of this node.
	Node string
	// Dir is the directory that keeps the last state between runs. It has mode 0700, because it
	// contains secrets.
	Dir     string
	Applier Applier
	// Hold returns why the last applied revision must not be acknowledged yet, or nil if it may
	// be. It is called again every second. Without Hold everything is acknowledged.
	Hold func() error
	// Wait is how long a poll waits for changes; zero means 30 s.
	Wait time.Duration
	Log  *slog.Logger
}

// holdWait is how long a poll waits while an acknowledgement is held back.
const holdWait = time.Second

// Client follows the feed of one node.
type Client struct {
	cfg  ClientConfig
	up   *upstream
	disk disk

	state  *state // as last applied
	synced bool   // everything of the last contact is applied
	// missingBlob is set if the server could not supply a document named by its last page.
	missingBlob bool
	acked       int64 // the revision that the server knows of; -1 if unknown

	applying sync.Mutex
	served   bool // a state of this process is applied; guarded by applying

	mu     sync.Mutex
	status Status
	logged map[string]bool // the errors since the last contact that were logged
}

// Status is a snapshot for metrics and health.
type Status struct {
	// Connected is true if the last call succeeded; otherwise Problem is its error.
	Connected bool
	Problem   string
	// Held is why an applied revision is not acknowledged; empty if it is.
	Held string
	// Contact is when the server last answered; zero means never.
	Contact time.Time
	// Revision was applied, and Acked was acknowledged to the server; -1 means none in this
	// process.
	Revision, Acked int64
	InSync          bool
	// Guests are those of this node, and Peers those of others; PeersRevision is applied of the latter.
	Guests, Peers int
	PeersRevision int64
}

// NewClient returns a client. Nothing runs before Run.
func NewClient(cfg ClientConfig) *Client {
	if cfg.Wait <= 0 {
		cfg.Wait = 30 * time.Second
	}
	return &Client{cfg: cfg, up: newUpstream(cfg.Socket, cfg.Remotes), disk: disk{cfg.Dir, cfg.Log}, state: newState(),
		acked: -1, status: Status{Acked: -1}}
}

// Status returns a snapshot of the client's state.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Run applies what is on disk, then follows the server until ctx ends, and returns nil. It returns
// an error only if its directory cannot be used.
func (c *Client) Run(ctx context.Context) error {
	defer c.up.close()
	if err := c.disk.prepare(); err != nil {
		return fmt.Errorf("feed directory: %w", err)
	}
	loaded, err := c.disk.load(c.cfg.Node)
	if err != nil {
		return err
	}
	c.state = loaded
	c.mu.Lock()
	c.status.Revision, c.status.Guests = loaded.revision, loaded.guests.size
	c.status.Peers, c.status.PeersRevision = loaded.peers.guests.size, loaded.peersRevision
	c.mu.Unlock()
	var restoring sync.WaitGroup
	defer restoring.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if loaded.generation != "" {
		state := loaded.view(false)
		if err := c.apply(ctx, state); err != nil {
			restoring.Go(func() { c.restore(ctx, state, err) })
		}
	}
	var retry backoff
	for {
		began := time.Now()
		err := c.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > maxBackoff { // a server that answers only the first request is not back
			retry = backoff{}
		}
		c.disconnected(err)
		if !retry.wait(ctx) {
			return nil
		}
	}
}

// follow requests, applies and acknowledges pages until something fails. The first request does not
// wait, and the first acknowledgement is always sent, because the server may have been replaced.
func (c *Client) follow(ctx context.Context) error {
	c.acked = -1
	var wait time.Duration
	var retry backoff
	for {
		began, before := time.Now(), c.state
		page, err := c.up.page(ctx, c.cfg.Node, c.state.position(), wait)
		if err != nil {
			return err
		}
		if err := c.applyPage(ctx, page); err != nil {
			return err
		}
		held, err := c.acknowledge(ctx)
		if err != nil {
			return err
		}
		c.connected(held)
		switch {
		case c.state.follows(before) || wait > 0 && time.Since(began) >= wait/2:
			retry = backoff{}
		case wait > 0 && !retry.wait(ctx): // the server did not wait; it is about to end, or wrong
			return ctx.Err()
		}
		if wait = c.cfg.Wait; held != "" {
			wait = min(wait, holdWait)
		}
	}
}

// acknowledge reports the applied revision to the server. If that is held back, held says why.
func (c *Client) acknowledge(ctx context.Context) (held string, err error) {
	if c.acked == c.state.revision {
		return "", nil
	}
	if c.cfg.Hold != nil {
		if err := c.cfg.Hold(); err != nil {
			return err.Error(), nil
		}
	}
	if err := c.up.applied(ctx, c.cfg.Node, c.state.revision); err != nil {
		return "", err
	}
	c.acked = c.state.revision
	return "", nil
}

// applyPage applies a page: it fetches missing documents, stores the state on disk and hands it to the
// applier.
func (c *Client) applyPage(ctx context.Context, page packedPage) error {
	next, changed, err := c.state.after(page)
	if err != nil {
		return c.startOver(err)
	}
	missing := next.missing()
	if !changed && c.synced && len(missing) == 0 {
		c.state = next // its peers may be of a later revision
		return nil
	}
	for _, b := range missing {
		data, err := c.up.blob(ctx, b.SHA256)
		if errors.Is(err, seedbed.ErrNotFound) {
			// The record may have changed since; a newer page then names another document. If the
			// document is missing a second time, start over from a snapshot.
			if c.missingBlob = !c.missingBlob; !c.missingBlob {
				return c.startOver(err)
			}
		}
		if err == nil {
			err = checkBlob(b, data)
		}
		if err != nil {
			return fmt.Errorf("fetch document: %w", err)
		}
		next.blobs[b.SHA256] = data
	}
	if changed || len(missing) > 0 {
		if err := c.disk.store(c.cfg.Node, next, missing); err != nil {
			return err
		}
	}
	if err := c.apply(ctx, next.viewAfter(c.state, page)); err != nil {
		return fmt.Errorf("apply revision %d: %w", next.revision, err)
	}
	c.state, c.synced, c.missingBlob = next, true, false
	if err := c.disk.sweep(next); err != nil {
		c.cfg.Log.Warn("remove documents that are no longer served", "err", err)
	}
	return nil
}

// startOver makes the next request ask for a snapshot. What is served does not change.
func (c *Client) startOver(cause error) error {
	p := *c.state
	p.generation, p.revision, p.peersRevision = "", 0, 0
	c.state = &p
	return fmt.Errorf("ask for a snapshot: %w", cause)
}

func (c *Client) connected(held string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held != "" && held != c.status.Held {
		c.cfg.Log.Warn("the feed is applied but not acknowledged", "revision", c.state.revision, "reason", held)
	}
	if !c.status.Connected {
		c.cfg.Log.Info("feed is followed", "node", c.cfg.Node, "revision", c.state.revision, "guests", c.state.guests.size)
	}
	c.logged = nil
	c.status = Status{Connected: true, Held: held, Contact: time.Now(), Revision: c.state.revision, Acked: c.acked,
		InSync: c.synced, Guests: c.state.guests.size, Peers: c.state.peers.guests.size, PeersRevision: c.state.peersRevision}
}

// maxLogged is how many errors are logged without a contact between them.
const maxLogged = 32

// disconnected records an error, and logs it unless it was logged since the last contact. Each of several
// servers has errors of its own.
func (c *Client) disconnected(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logged == nil {
		c.logged = map[string]bool{}
	}
	if !c.logged[err.Error()] && len(c.logged) < maxLogged {
		c.logged[err.Error()] = true
		c.cfg.Log.Warn("feed is interrupted; known guests are still served", "err", err)
	}
	c.status.Connected, c.status.Problem, c.status.Acked = false, err.Error(), -1
}
