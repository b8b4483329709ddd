package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/duplex"
	"seedbed/internal/httpserve"
)

// Terminals opens what people work at, on the workers of nodes.
type Terminals interface {
	// OpenConsole opens a session at an instance's serial console.
	OpenConsole(ctx context.Context, node string, s seedbed.ConsoleSession) (*duplex.Conn, error)
	// OpenScreen opens a session at an instance's screen, by VNC.
	OpenScreen(ctx context.Context, node string, id seedbed.InstanceID) (*duplex.Conn, error)
	// Screenshot returns what an instance's screen shows, as a PNG.
	Screenshot(ctx context.Context, node string, id seedbed.InstanceID) ([]byte, error)
	// GuestExec starts a program in an instance's guest, and returns its ID. GuestWait waits for it. It returns after some seconds if
	// the program goes on, and can be asked again for the output for some minutes.
	GuestExec(ctx context.Context, node string, id seedbed.InstanceID, c seedbed.GuestCommand) (seedbed.GuestProcess, error)
	GuestWait(ctx context.Context, node string, id seedbed.InstanceID, process int64) (seedbed.GuestProcess, error)
	// OpenGuestFile copies a file from an instance's guest or to it.
	OpenGuestFile(ctx context.Context, node string, f seedbed.GuestFile) (*duplex.Conn, error)
	// OpenVolumeFile sends a file that was made of a volume.
	OpenVolumeFile(ctx context.Context, node string, f seedbed.VolumeFile) (*duplex.Conn, error)
}

const (
	// ticketTime is how long a ticket can be used.
	ticketTime = time.Minute
	// channelIdle is how long a channel is kept in which nothing is sent.
	channelIdle = time.Hour
	// noteTime bounds the writing of an entry of the audit log.
	noteTime = 10 * time.Second
	// The bounds of channels.
	channelsEach = 16 // per Caller
	channelsMost = 128
)

// Channel is what a ticket opens: a connection to a console, a screen or a file, for one caller.
type Channel struct {
	// Instance is whose it is; zero for the file of a volume.
	Instance seedbed.InstanceName `json:"instance"`
	Node     string               `json:"node"`
	// Console, File, Volume or Screen is set.
	Console *seedbed.ConsoleSession `json:"console,omitempty"`
	Volume  *seedbed.VolumeFile     `json:"volume,omitempty"`
	File    *seedbed.GuestFile      `json:"file,omitempty"`
	Screen  seedbed.InstanceID      `json:"screen,omitempty"`
	// Action is what the caller must be allowed to do for as long as the channel lasts.
	Action seedbed.Action `json:"action"`
	// What it is, for the audit log.
	What string `json:"what"`
	// Opener is the caller. IssueTicket sets it.
	Opener opener `json:"opener"`
}

// opener is the caller that has a channel, as the audit log needs it, and as it is found again.
type opener struct {
	Actor   string       `json:"actor"`
	Role    seedbed.Role `json:"role"`
	Project string       `json:"project"`
	Visits  bool         `json:"visits"`
	From    string       `json:"from"`
	Request string       `json:"request"`
	// Sum is the digest of the token's secret. Asked is the project that the caller asked for, which may be empty.
	Sum   [sha256.Size]byte `json:"sum"`
	Asked string            `json:"asked"`
}

// ticketOf returns what a ticket is kept by.
func ticketOf(secret string) [sha256.Size]byte { return sha256.Sum256([]byte("ticket\x00" + secret)) }

// IssueTicket returns a ticket by which the caller opens ch once, soon.
func (r *Router) IssueTicket(ctx context.Context, c *fiber.Ctx, ch Channel) (wire.Ticket, error) {
	who := CallerOf(c)
	ch.Opener = opener{Actor: who.Name, Role: who.Grant.Role, Project: who.Project, Visits: who.visits(), From: who.peer, Sum: who.sum,
		Request: c.Method() + " " + strings.ToValidUTF8(c.Path(), "?")}
	if who.named {
		ch.Opener.Asked = who.Project
	}
	data, err := json.Marshal(ch)
	if err != nil {
		return wire.Ticket{}, err
	}
	t := wire.Ticket{Ticket: rand.Text(), Expires: time.Now().Add(ticketTime).UTC().Truncate(time.Second)}
	t.Path = Prefix + "/channel?ticket=" + t.Ticket
	return t, r.Store.KeepSignIn(ctx, ticketOf(t.Ticket), data, t.Expires)
}

// OpenChannel takes over the connection of a request with a ticket.
func (r *Router) OpenChannel(ctx context.Context, c *fiber.Ctx) error {
	if err := duplex.Asked(c.Context()); err != nil {
		return err
	}
	data, err := r.Store.TakeSignIn(ctx, ticketOf(c.Query("ticket")))
	if errors.Is(err, seedbed.ErrNotFound) {
		if !r.SlowGuess() {
			return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unauthenticated", Detail: "too many wrong tickets: try again later"}
		}
		return seedbed.Errorf(seedbed.ErrNotFound, "there is no such ticket: it was used, or is older than %s", ticketTime)
	}
	var ch Channel
	if err == nil {
		err = json.Unmarshal(data, &ch)
	}
	if err != nil {
		return err
	}
	return r.accept(c.Context(), ch)
}

// accept answers the request, and serves the channel.
func (r *Router) accept(c *fasthttp.RequestCtx, ch Channel) error {
	return duplex.Accept(c, func(d *duplex.Conn) {
		defer func() {
			if p := recover(); p != nil {
				r.Log.Error("panic in a channel", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		if err := r.converse(d, ch); err != nil {
			d.End(r.endNote(seedbed.EndNote(err), ch).JSON())
		}
	})
}

// endNote returns the note of the end of a channel as the caller may read it.
func (r *Router) endNote(n seedbed.ConsoleNote, ch Channel) seedbed.ConsoleNote {
	if n.Kind == seedbed.KindName(errors.New("")) {
		r.Log.Error("a channel ends by an error", "instance", ch.Instance, "node", ch.Node, "err", n.Reason)
		n.Reason = internal
	}
	return n
}

// converse serves a channel until it ends. It returns an error that the caller was not told.
func (r *Router) converse(d *duplex.Conn, ch Channel) error {
	if !r.gate.Enter() {
		return errStopping
	}
	defer r.gate.Leave()
	if !r.channels.enter(ch.Opener.Actor) {
		return seedbed.Errorf(seedbed.ErrInUse, "too many consoles, screens and files are open: %s may have %d, and all together %d",
			ch.Opener.Actor, channelsEach, channelsMost)
	}
	defer r.channels.leave(ch.Opener.Actor)
	ctx, cancel := context.WithCancel(r.base)
	defer cancel()
	if err := r.admit(ch); err != nil {
		return err
	}
	noteEnd := func() {
		if err := r.note(ch, "end"); err != nil {
			r.Log.Error("the end of a channel is not in the audit log", "instance", ch.Instance, "actor", ch.Opener.Actor, "err", err)
		}
	}
	// A file that is opened to be written is emptied by that, so the audit log has it before.
	if ch.File != nil {
		if err := r.note(ch, "open"); err != nil {
			return err
		}
		defer noteEnd()
	}
	far, err := ch.open(ctx, r.Terminals)
	if err != nil {
		return err
	}
	defer far.Close()
	if ch.File == nil {
		if err := r.note(ch, "open"); err != nil {
			return err
		}
		defer noteEnd()
	}
	return r.relay(d, far, ch)
}

// open opens the connection to the worker.
func (ch Channel) open(ctx context.Context, t Terminals) (*duplex.Conn, error) {
	switch {
	case ch.Console != nil:
		return t.OpenConsole(ctx, ch.Node, *ch.Console)
	case ch.File != nil:
		return t.OpenGuestFile(ctx, ch.Node, *ch.File)
	case ch.Volume != nil:
		return t.OpenVolumeFile(ctx, ch.Node, *ch.Volume)
	}
	return t.OpenScreen(ctx, ch.Node, ch.Screen)
}

var errStopping = seedbed.Errorf(seedbed.ErrUnavailable, "seedbedd is stopping: connect again in a moment")

// note adds an entry to the audit log.
func (r *Router) note(ch Channel, what string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.base), noteTime)
	defer cancel()
	o := ch.Opener
	change := &seedbed.Change{Actor: o.Actor, Role: o.Role, Project: o.Project, Visits: o.Visits, From: o.From, Request: o.Request}
	text := what + " " + ch.What
	if ch.Volume == nil {
		text += " of instance " + ch.Instance.String()
	}
	return r.Store.Note(seedbed.WithChange(ctx, change), text)
}

// admit returns an error if the caller may not have the channel any more.
func (r *Router) admit(ch Channel) error {
	if ch.Opener.Sum == ([sha256.Size]byte{}) {
		return nil // of the control socket
	}
	who, err := r.callerOf(ch.Opener.Sum, ch.Opener.From)
	if errors.Is(err, seedbed.ErrNotFound) {
		return seedbed.Errorf(seedbed.ErrUnauthenticated, "the token or the session was removed, or has expired")
	}
	if err == nil {
		who, err = r.enterProject(who, ch.Opener.Asked)
	}
	if err == nil && who.Project != ch.Opener.Project {
		err = seedbed.Errorf(seedbed.ErrForbidden, "%s has no role in project %s any more", who.Name, ch.Opener.Project)
	}
	if err == nil {
		err = who.Need(ch.Action)
	}
	return err
}

// undecided reports whether admit could not find out, such as when the database does not answer.
func undecided(err error) bool {
	return err != nil && !errors.Is(err, seedbed.ErrUnauthenticated) && !errors.Is(err, seedbed.ErrForbidden) &&
		!errors.Is(err, seedbed.ErrNotFound)
}

// relay passes messages in both directions until one side ends, nothing is sent for long, the caller may not have the channel
// any more, or the server stops.
func (r *Router) relay(d, far *duplex.Conn, ch Channel) error {
	var both sync.WaitGroup
	defer both.Wait()
	defer far.Close()
	left, ended := make(chan struct{}), make(chan error, 1)
	var over atomic.Bool
	both.Go(func() {
		defer close(left)
		for {
			m, err := d.Receive()
			if err != nil {
				return
			}
			if !over.Load() {
				_ = far.Send(m) // if the worker has gone, down ends
			}
		}
	})
	both.Go(func() { ended <- r.down(d, far, ch) })
	defer d.Close() // ends the first
	beat := time.NewTicker(cmp.Or(r.Heartbeat, heartbeat))
	defer beat.Stop()
	idle := cmp.Or(r.ChannelIdle, channelIdle)
	for {
		var err error
		select {
		case err := <-ended:
			return r.last(d, ch, err)
		case <-left:
			return nil
		case <-r.stopping:
			err = errStopping
		case <-beat.C:
			if err = r.admit(ch); undecided(err) {
				err = nil // the next time
			}
			if err == nil && d.Idle() > idle {
				err = seedbed.Errorf(seedbed.ErrUnavailable, "nothing was typed, shown or copied for %s", idle)
			}
		}
		if err != nil {
			over.Store(true) // nothing more is typed, though the caller may take its time to read why
			return r.last(d, ch, err)
		}
	}
}

// last tells the caller the error that ends a channel, if there is one.
func (r *Router) last(d *duplex.Conn, ch Channel, err error) error {
	if err != nil {
		d.End(r.endNote(seedbed.EndNote(err), ch).JSON())
	}
	return nil
}

// down passes what the worker sends, until it ends. It returns an error that the caller was not told.
func (r *Router) down(d, far *duplex.Conn, ch Channel) error {
	told := false
	for {
		m, err := far.Receive()
		if err != nil {
			if told {
				return nil
			}
			return seedbed.Errorf(seedbed.ErrUnavailable, "the connection to the worker on node %s broke", ch.Node)
		}
		var n seedbed.ConsoleNote
		if m.Text && json.Unmarshal(m.Data, &n) == nil && n.Note == seedbed.NoteEnd {
			told = true
			m.Data = r.endNote(n, ch).JSON()
		}
		if err := d.Send(m); err != nil {
			return nil
		}
	}
}
