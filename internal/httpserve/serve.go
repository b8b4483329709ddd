// Package httpserve is what the servers that strangers reach have in common: a
// fiber app behind a guard against ambiguous requests, bounded reading of
// bodies, RFC 9457 problems, and a stop that answers the requests in hand.
package httpserve

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

// HeaderBytes is the largest header block, request line included, that is taken.
const HeaderBytes = 16 << 10

// New is an app without routes behind g. Of c the caller sets BodyLimit,
// Concurrency, the three timeouts and ErrorHandler; the rest is set here. Paths
// are matched exactly, and bodies are streams: read them with ReadBody.
func New(c fiber.Config, g Guard) *fiber.App {
	c.AppName = "seedbed"
	c.StrictRouting = true
	c.CaseSensitive = true
	c.Immutable = true
	c.DisableStartupMessage = true
	c.StreamRequestBody = true
	c.DisablePreParseMultipartForm = true
	c.ReadBufferSize = HeaderBytes
	app := fiber.New(c)
	// Around the router, so that what the router itself answers is guarded too.
	server := app.Server()
	server.Handler = g.around(server.Handler)
	return app
}

// Serve answers with app on ln until ctx ends, which is no error, and closes ln.
// Before that it calls drain, which must refuse new requests and return when
// those in hand are answered: a Gate does. The connections then have timeout to
// close. Errors call the service what: "the API".
func Serve(ctx context.Context, ln net.Listener, app *fiber.App, what string, drain func(), timeout time.Duration) error {
	var served error
	done := make(chan struct{})
	go func() {
		defer close(done)
		served = app.Listener(ln)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	drain()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	err := app.ShutdownWithContext(stop)
	ln.Close() // the HTTP server does not know it yet when ctx ended at once
	<-done
	if ctx.Err() == nil {
		return fmt.Errorf("serve %s on %s: %w", what, ln.Addr(), cmp.Or(served, net.ErrClosed))
	}
	if err != nil {
		return fmt.Errorf("stop %s on %s: %w", what, ln.Addr(), err)
	}
	return nil
}
