package worker

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"seedbed"
)

// Client asks the worker that answers on a unix socket, or on another host over
// TLS, for effects. Its methods may be called at the same time.
//
// Every method ends with its context: the worker is told to end the call, and
// the method waits, for a few seconds at most, until it has. A context without a deadline gets one.
// Errors are of the kinds that the interfaces in driver.go name, and besides:
// ErrUnavailable when the worker does not answer, stops, or is gone in the
// middle of the call, or when the deadline passes (which is
// context.DeadlineExceeded too); ErrStale when the call's epoch is not its job's newest.
type Client struct {
	at      string // where the worker is, for messages: a path or a URL
	dial    func(context.Context) (net.Conn, error)
	http    *http.Client
	grace   time.Duration
	silence time.Duration
}

// The time that a call has when its context sets no deadline.
const (
	readTime   = 30 * time.Second
	effectTime = 10 * time.Minute
)

const (
	// deadlineGrace is how much longer than the worker the client waits, for the worker's own error.
	deadlineGrace = 2 * time.Second
	// silenceTime is how long a worker that is alive can be silent.
	silenceTime = 10 * time.Second
)

// NewClient makes a client of the worker's socket at path. Nothing is connected yet.
func NewClient(path string) *Client {
	return newClient(path, socketDialer(path))
}

// NewRemoteClient makes a client of the worker that serves control hosts at url, such
// as https://hv2.example:7375, over TLS as conf says, which decides whether it is the
// right one. Nothing is connected yet. Calls of a URL of another form give ErrInvalid.
func NewRemoteClient(url string, conf *tls.Config) *Client {
	return newClient(url, tlsDialer(url, conf))
}

func newClient(at string, dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{at: at, dial: dial, grace: deadlineGrace, silence: silenceTime, http: &http.Client{Transport: &http.Transport{
		// A connection per call: one that was kept would break with the worker's restart.
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// CloneVolume makes a volume: see Cloner.
func (c *Client) CloneVolume(ctx context.Context, call seedbed.Call, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error) {
	return ask[seedbed.VolumeInfo](ctx, c, exchange{effect: cloneVolume, call: call, args: spec})
}

// RemoveVolume removes a volume that is tagged with id: see Remover.
func (c *Client) RemoveVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) error {
	_, err := ask[none](ctx, c, exchange{effect: removeVolume, call: call, args: volumeArgs{pool, name, id}})
	return err
}

// ImportImage makes an image of a file on the worker's host: see ImageStore.
// Of progress the latest is passed on; it may be nil.
func (c *Client) ImportImage(ctx context.Context, call seedbed.Call, spec seedbed.ImageSpec, progress func(seedbed.Progress)) (seedbed.ImageInfo, error) {
	return ask[seedbed.ImageInfo](ctx, c, exchange{effect: importImage, call: call, args: spec, progress: progress})
}

// RemoveImage removes an image that is tagged with the job of, or without one
// with the call's: see ImageStore.
func (c *Client) RemoveImage(ctx context.Context, call seedbed.Call, pool, name string, of seedbed.JobID) error {
	_, err := ask[none](ctx, c, exchange{effect: removeImage, call: call, args: imageArgs{pool, name, of}})
	return err
}

// DefineDomain defines a domain: see Definer.
func (c *Client) DefineDomain(ctx context.Context, call seedbed.Call, spec seedbed.DomainSpec) error {
	_, err := ask[none](ctx, c, exchange{effect: defineDomain, call: call, args: spec})
	return err
}

// StartDomain starts a domain: see Power.
func (c *Client) StartDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	_, err := ask[none](ctx, c, exchange{effect: startDomain, call: call, args: domainArgs{id}})
	return err
}

// ShutdownDomain asks a domain's guest to shut down: see Power.
func (c *Client) ShutdownDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	_, err := ask[none](ctx, c, exchange{effect: shutdownDomain, call: call, args: domainArgs{id}})
	return err
}

// DestroyDomain switches a domain off: see Power.
func (c *Client) DestroyDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	_, err := ask[none](ctx, c, exchange{effect: destroyDomain, call: call, args: domainArgs{id}})
	return err
}

// UndefineDomain makes the hypervisor forget a domain: see Definer.
func (c *Client) UndefineDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	_, err := ask[none](ctx, c, exchange{effect: undefineDomain, call: call, args: domainArgs{id}})
	return err
}

// DomainState is one domain: see Inspector.
func (c *Client) DomainState(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainInfo, error) {
	return ask[seedbed.DomainInfo](ctx, c, exchange{effect: domainState, args: domainArgs{id}})
}

// Inventory is everything on the worker's node that carries Seedbed's tag. It
// is not an error when a driver did not answer: then Complete is false.
func (c *Client) Inventory(ctx context.Context) (seedbed.Inventory, error) {
	return ask[seedbed.Inventory](ctx, c, exchange{effect: inventory})
}

// Console is the end of a domain's console, 1 byte to 16 MiB: see Inspector.
func (c *Client) Console(ctx context.Context, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error) {
	return ask[[]byte](ctx, c, exchange{effect: console, args: consoleArgs{id, tail}})
}

// Health is the checks of the worker's drivers.
func (c *Client) Health(ctx context.Context) ([]seedbed.Check, error) {
	return ask[[]seedbed.Check](ctx, c, exchange{effect: health})
}

// Watch calls event for every change of a domain, the first time always for a
// resync, until ctx ends or the connection breaks, and returns why: the context's error
// or, mostly, ErrUnavailable. event is called from one goroutine, and not after the return.
func (c *Client) Watch(ctx context.Context, event func(seedbed.DomainEvent)) error {
	_, err := ask[none](ctx, c, exchange{effect: watch, endless: true, event: event})
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrUnavailable, "the worker on %s has stopped sending events", c.at)
	}
	return err
}

// cancel ends the call of that ID, and returns when it has ended or after a few seconds.
func (c *Client) cancel(ctx context.Context, id string, call seedbed.Call) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	_, err := c.send(ctx, cancelCall, request{ID: id, Call: call}, func(line) {})
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// Supersede ends what the worker does for the call's job, and has it refuse what
// comes under an earlier epoch: another worker goes on with the job. It returns
// when all has ended, or ErrUnavailable after a few seconds.
func (c *Client) Supersede(ctx context.Context, call seedbed.Call) error {
	return c.cancel(ctx, "", call)
}
