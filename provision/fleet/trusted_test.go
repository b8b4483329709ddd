package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/mtls"
	"seedbed/provision/effects"
)

// TestWatchEndsWithTrust checks that a watch lasts only as long as its caller's certificate is
// accepted.
func TestWatchEndsWithTrust(t *testing.T) {
	t.Parallel()
	// A separate transport, because the authority changes.
	o, err := newOverTLS(filepath.Join(t.TempDir(), "ca"))
	must(t, "identities", err)
	l := startOver(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, done := make(chan seedbed.DomainEvent, 16), make(chan error, 1)
	go func() { done <- effects.Watch.Follow(ctx, l, func(e seedbed.DomainEvent) { events <- e }) }()
	wait(t, "resync", events)
	must(t, "define", effects.DefineDomain.Do(ctx, l, call(1), seedbed.DomainSpec{ID: seedbed.NewInstanceID(), Name: "web"}))
	if e := wait(t, "event", events); e.Event != "defined" {
		t.Errorf("event %+v", e)
	}

	next := filepath.Join(t.TempDir(), "ca")
	_, err = mtls.NewAuthority(next, time.Hour)
	must(t, "next authority", err)
	_, err = (&overTLS{dir: next}).identity(mtls.Worker, "n1")
	must(t, "next certificate", err)
	files, err := filepath.Glob(filepath.Join(next, "n1", "*"))
	must(t, "files", err)
	for _, from := range append(files, filepath.Join(next, "ca.pem")) {
		to, err := filepath.Rel(next, from)
		must(t, "name", err)
		text, err := os.ReadFile(from)
		must(t, "read", err)
		must(t, "write", os.WriteFile(filepath.Join(o.dir, to), text, 0o600))
	}
	err = wait(t, "end of the watch", done)
	if !errors.Is(err, seedbed.ErrUnauthenticated) ||
		!strings.Contains(err.Error(), `the certificate of "cp1" was not signed by the authority`) {
		t.Errorf("the watch ends with %v", err)
	}
}
