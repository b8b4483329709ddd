// Package httpserve starts and stops the HTTP servers of the daemons. For those that face untrusted
// callers it also has a fiber app behind a guard against ambiguous requests, bounded reading of
// bodies, and RFC 9457 problems.
package httpserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

// HeaderBytes is the size of the largest accepted header block, request line included.
const HeaderBytes = 16 << 10

// New returns an app without routes behind g. The caller sets BodyLimit, Concurrency, the three
// timeouts and ErrorHandler of c; New sets the rest. Paths are matched exactly. Bodies are streams:
// read them with ReadBody.
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
	// The guard is around the router, so that it also covers the router's own answers.
	server := app.Server()
	server.Handler = g.around(server.Handler)
	return app
}

// Serve answers with app on ln until ctx ends, which is not an error, and then closes ln. First it
// calls drain, which must refuse new requests and return when the running ones are answered, as
// Gate.Drain does, or at least make them end. After that, the connections have timeout to close; if
// some stay open, the error is context.DeadlineExceeded. A listener that breaks before ctx ends is
// an error. what is the errors' word for the service: "the API".
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
	ln.Close() // the HTTP server does not know ln yet if ctx ended at once
	<-done
	if ctx.Err() == nil {
		return fmt.Errorf("serve %s on %s: %w", what, ln.Addr(), cmp.Or(served, net.ErrClosed))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stop %s on %s: %w", what, ln.Addr(), err)
	}
	return nil
}
