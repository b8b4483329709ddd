package drivertest

import (
	"bytes"
	"image/png"
	"testing"
	"time"

	"seedbed"
)

func testScreen(t *testing.T, d HypervisorDriver) {
	ctx, h, spec, blind := t.Context(), d.Open(t), d.Spec(t), d.Spec(t)
	refused := func(what string, id seedbed.InstanceID, want error) {
		t.Helper()
		_, err := h.OpenScreen(ctx, id)
		is(t, "screen of "+what, err, want)
		_, err = h.Screenshot(ctx, id)
		is(t, "screenshot of "+what, err, want)
	}
	refused("an absent domain", spec.ID, seedbed.ErrNotFound)
	spec.System = &seedbed.System{VNC: true}
	for _, s := range []seedbed.DomainSpec{spec, blind} {
		ok(t, "define", h.DefineDomain(ctx, s))
		defer undefine(t, h, s.ID)
	}
	refused("a domain that is off", spec.ID, seedbed.ErrConflict)
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	ok(t, "start", h.StartDomain(ctx, blind.ID))
	refused("a domain without one", blind.ID, seedbed.ErrConflict)
	if d.NoConsoles {
		_, err := h.OpenScreen(ctx, spec.ID)
		is(t, "screen of a hypervisor without screens", err, seedbed.ErrInvalid)
	} else {
		for range 2 { // at the same time
			screen, err := h.OpenScreen(ctx, spec.ID)
			ok(t, "open", err)
			defer screen.Close()
			ok(t, "deadline", screen.SetDeadline(time.Now().Add(patience)))
			name, err := View(screen)
			if err != nil || !bytes.Contains([]byte(name), []byte(spec.Name)) {
				t.Fatalf("the screen of %s is %q, %v", spec.Name, name, err)
			}
			defer func() { ok(t, "the end of the screen", ended(t, screen)) }()
		}
		picture, err := h.Screenshot(ctx, spec.ID)
		ok(t, "screenshot", err)
		m, err := png.Decode(bytes.NewReader(picture))
		if err != nil || m.Bounds().Dx() < 320 || m.Bounds().Dy() < 200 {
			t.Fatalf("the screenshot is %v, %v", m, err)
		}
	}
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	ok(t, "destroy", h.DestroyDomain(ctx, blind.ID))
}

func testAgent(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	ask := func(what string, want error) {
		t.Helper()
		begin := time.Now()
		_, err := h.AskAgent(ctx, spec.ID, []byte(`{"execute":"guest-ping"}`))
		is(t, "the agent of "+what, err, want)
		if took := time.Since(begin); took > patience {
			t.Errorf("the agent of %s took %s", what, took)
		}
	}
	ask("an absent domain", seedbed.ErrNotFound)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	ask("a domain that is off", seedbed.ErrConflict)
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	ask("a guest without one", seedbed.ErrConflict)
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
}
