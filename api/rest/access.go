package rest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// filter selects events of an instance.
type filter struct {
	kind, path string
	status     string // "404", or "4xx"
	since      time.Time
}

var guestKinds = []string{seedbed.GuestLease, seedbed.GuestAccess, seedbed.GuestUserData, seedbed.GuestReport, seedbed.GuestPassword}

// filterOf reads the filter from the query. It returns ErrInvalid for a value that cannot match.
func filterOf(c *fiber.Ctx) (f filter, err error) {
	f = filter{kind: c.Query("kind"), path: c.Query("path"), status: c.Query("status")}
	if f.kind != "" && !slices.Contains(guestKinds, f.kind) {
		return f, server.Invalid("kind %q: expected %s", seedbed.Clip(f.kind), strings.Join(guestKinds, ", "))
	}
	if len(f.path) > maxPath {
		return f, server.Invalid("path is too long: expected at most %d bytes", maxPath)
	}
	if f.status != "" {
		n, err := strconv.Atoi(strings.TrimSuffix(f.status, "xx"))
		class := strings.HasSuffix(f.status, "xx")
		if err != nil || class && (n < 1 || n > 5) || !class && (n < 100 || n > 599) {
			return f, server.Invalid("status %q: expected a status such as 404, or a class such as 4xx", seedbed.Clip(f.status))
		}
	}
	f.since, err = sinceOf(c)
	return f, err
}

// none reports whether f selects every event.
func (f filter) none() bool { return f == filter{} }

func (f filter) takes(e seedbed.GuestEvent) bool {
	status := strconv.Itoa(e.Status)
	switch {
	case f.kind != "" && f.kind != e.Kind,
		f.path != "" && !strings.HasPrefix(e.Path, f.path),
		f.status != "" && f.status != status && f.status != status[:1]+"xx",
		!f.since.IsZero() && e.At.Before(f.since):
		return false
	}
	return true
}

// apply returns the first n events that f selects.
func (f filter) apply(all []seedbed.GuestEvent, n int) []seedbed.GuestEvent {
	kept := []seedbed.GuestEvent{}
	for _, e := range all {
		if f.takes(e) {
			if kept = append(kept, e); len(kept) == n {
				break
			}
		}
	}
	return kept
}

func (r *router) metadata(ctx context.Context, c *fiber.Ctx) error {
	p := c.Query("path", defaultPath)
	if len(p) > maxPath || p[0] != '/' {
		return server.Invalid("path %q: expected one that starts with '/', such as %s", seedbed.Clip(p), defaultPath)
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	body, contentType, ok, err := r.Metadata(ctx, i, p)
	if err != nil {
		return err
	}
	if !ok {
		return seedbed.Errorf(seedbed.ErrNotFound, "instance %s is served nothing at %q", i.Name, seedbed.Clip(p))
	}
	return guestBytes(c, contentType, body)
}

// guestBytes answers bytes that came from a guest or are served to one. They are untrusted: a
// browser must neither guess their type nor run them.
func guestBytes(c *fiber.Ctx, contentType string, b []byte) error {
	c.Set(fiber.HeaderContentType, contentType)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderContentSecurityPolicy, "sandbox")
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.Status(fiber.StatusOK).Send(b)
}
