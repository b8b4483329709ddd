package drivertest

import (
	"errors"
	"io"
	"testing"
	"time"

	"seedbed"
)

// ended returns the error that ends the output of an opened console; nil if it ends as it does when the domain ends.
func ended(t *testing.T, from io.Reader) error {
	t.Helper()
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, from)
		end <- err
	}()
	select {
	case err := <-end:
		return err
	case <-time.After(patience):
		t.Fatal("the console does not end")
		return nil
	}
}

func testOpenConsole(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	_, err := h.OpenConsole(ctx, spec.ID, false)
	is(t, "console of an absent domain", err, seedbed.ErrNotFound)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	_, err = h.OpenConsole(ctx, spec.ID, false)
	is(t, "console of a domain that is off", err, seedbed.ErrConflict)
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	if d.NoConsoles {
		_, err := h.OpenConsole(ctx, spec.ID, false)
		is(t, "console of a hypervisor without consoles", err, seedbed.ErrInvalid)
		ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
		return
	}
	first, err := h.OpenConsole(ctx, spec.ID, false)
	ok(t, "open", err)
	defer first.Close()
	if n, err := first.Write([]byte("typed\r")); n != 6 || err != nil {
		t.Fatalf("write: %d bytes, %v", n, err)
	}
	_, err = h.OpenConsole(ctx, spec.ID, false)
	is(t, "open it twice", err, seedbed.ErrInUse)
	second, err := h.OpenConsole(ctx, spec.ID, true)
	ok(t, "take it", err)
	if err := ended(t, first); err == nil {
		t.Fatal("what was taken ends as if the domain had")
	}
	ok(t, "close", errors.Join(second.Close(), second.Close()))
	if err := ended(t, second); err == nil {
		t.Fatal("what was closed ends as if the domain had")
	}
	third, err := h.OpenConsole(ctx, spec.ID, false)
	ok(t, "open it again", err)
	defer third.Close()
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	ok(t, "the end of the domain", ended(t, third))
	ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
}
