package drivertest

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"
)

// HypervisorDriver describes the driver under test to TestHypervisor.
type HypervisorDriver struct {
	// Open opens the driver, and closes it at the end of t.
	Open func(t *testing.T) worker.Hypervisor
	// Spec returns a domain that the driver can define and start, with a new ID and name at each
	// call. What Spec makes is removed at the end of t, even if t has failed.
	Spec func(t *testing.T) seedbed.DomainSpec
	// Foreign defines a domain of that ID and name that does not carry Seedbed's tag, and undefines
	// it at the end of t.
	Foreign func(t *testing.T, id seedbed.InstanceID, name string)
	// NoConsoles is set for a hypervisor whose consoles and screens cannot be opened.
	NoConsoles bool
	// NoUsage is set for a hypervisor that has no figures of what domains have used.
	NoUsage bool
}

const (
	patience = time.Minute
	console  = 4 * seedbed.KiB
)

// TestHypervisor is the contract of worker.Hypervisor: every driver and the in-memory fake pass it.
// It does not touch foreign domains.
func TestHypervisor(t *testing.T, d HypervisorDriver) {
	for _, c := range []struct {
		name string
		test func(*testing.T, HypervisorDriver)
	}{
		{"life of a domain", testLife},
		{"everything may be asked twice", testTwice},
		{"absent domain", testAbsentDomain},
		{"name of another domain", testNameTaken},
		{"domain without the tag", testForeignDomain},
		{"adopt and release", testAdoptDomain},
		{"running domain is not undefined", testUndefineRunning},
		{"resize", testResizeDomain},
		{"copy and receive", testMove},
		{"migrations that are refused", testMigrateRefused},
		{"attach", testAttach},
		{"attach a NIC", testAttachNIC},
		{"change", testChange},
		{"rename", testRename},
		{"shutdown", testShutdown},
		{"at the same time", testDefineTogether},
		{"ended context", testEndedHypervisor},
		{"console", testConsole},
		{"opened console", testOpenConsole},
		{"screen", testScreen},
		{"guest agent", testAgent},
		{"definitions", testDomainXML},
		{"usage", testDomainUsage},
		{"events", testEvents},
		{"health", testHealth},
		{"report", testReport},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, d) })
	}
}

func testLife(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	spec.Project = "acme"
	want := func(state seedbed.DomainState) {
		t.Helper()
		exp := seedbed.DomainInfo{ID: spec.ID, Name: spec.Name, Project: spec.Project, Job: spec.Job, State: state}
		got, err := h.DomainState(ctx, spec.ID)
		if err != nil || got != exp {
			t.Fatalf("DomainState: got %+v, %v; want %+v", got, err, exp)
		}
		if got, ok := listed(t, h, spec.ID); !ok || got != exp {
			t.Fatalf("Domains: got %+v, listed %v; want %+v", got, ok, exp)
		}
	}
	spec.CDROM, spec.Datasource = true, seedbed.DatasourceNoCloud
	seed := seedbed.Seed{ID: spec.ID, Files: []seedbed.SeedFile{{Name: "meta-data", Data: []byte("instance-id: i-1")}}}
	foreign := seedbed.Seed{ID: spec.ID, Files: []seedbed.SeedFile{{Name: "../x"}}}
	is(t, "seed with a foreign file", h.SeedDomain(ctx, foreign), seedbed.ErrInvalid)
	ok(t, "seed", h.SeedDomain(ctx, seed))
	ok(t, "define", h.DefineDomain(ctx, spec))
	want(seedbed.DomainOff)
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	want(seedbed.DomainRunning)
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	want(seedbed.DomainOff)
	ok(t, "seed again", h.SeedDomain(ctx, seed))
	ok(t, "start again", h.StartDomain(ctx, spec.ID))
	want(seedbed.DomainRunning)
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
	_, err := h.DomainState(ctx, spec.ID)
	is(t, "state once undefined", err, seedbed.ErrNotFound)
	if _, ok := listed(t, h, spec.ID); ok {
		t.Fatal("Domains lists an undefined domain")
	}
}

func testTwice(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	for range 2 {
		ok(t, "define", h.DefineDomain(ctx, spec))
	}
	for range 2 {
		ok(t, "start", h.StartDomain(ctx, spec.ID))
	}
	ok(t, "define while running", h.DefineDomain(ctx, spec))
	if got, err := h.DomainState(ctx, spec.ID); err != nil || got.State != seedbed.DomainRunning {
		t.Fatalf("state after define while running: %+v, %v", got, err)
	}
	for range 2 {
		ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	}
	for range 2 {
		ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
	}
	ok(t, "destroy once undefined", h.DestroyDomain(ctx, spec.ID))
	ok(t, "define again", h.DefineDomain(ctx, spec))
	for range 2 {
		ok(t, "undefine for a while", h.UndefineKept(ctx, spec.ID))
	}
	ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
}

func testAbsentDomain(t *testing.T, d HypervisorDriver) {
	ctx, h, id := t.Context(), d.Open(t), seedbed.NewInstanceID()
	is(t, "start", h.StartDomain(ctx, id), seedbed.ErrNotFound)
	ok(t, "shut down", h.ShutdownDomain(ctx, id))
	ok(t, "destroy", h.DestroyDomain(ctx, id))
	ok(t, "undefine", h.UndefineDomain(ctx, id))
	_, err := h.DomainState(ctx, id)
	is(t, "state", err, seedbed.ErrNotFound)
	_, err = h.Console(ctx, id, console)
	is(t, "console", err, seedbed.ErrNotFound)
}

func testNameTaken(t *testing.T, d HypervisorDriver) {
	ctx, h, first, second := t.Context(), d.Open(t), d.Spec(t), d.Spec(t)
	ok(t, "define", h.DefineDomain(ctx, first))
	defer undefine(t, h, first.ID)
	sameName := second
	sameName.Name = first.Name
	is(t, "define with a taken name", h.DefineDomain(ctx, sameName), seedbed.ErrConflict)
	sameID := second
	sameID.ID = first.ID
	is(t, "define with a taken ID", h.DefineDomain(ctx, sameID), seedbed.ErrConflict)
	if got, err := h.DomainState(ctx, first.ID); err != nil || got.Name != first.Name {
		t.Fatalf("the first domain: %+v, %v", got, err)
	}
	_, err := h.DomainState(ctx, second.ID)
	is(t, "state of the refused domain", err, seedbed.ErrNotFound)
}

func testForeignDomain(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	d.Foreign(t, spec.ID, spec.Name)
	is(t, "define over it", h.DefineDomain(ctx, spec), seedbed.ErrConflict)
	is(t, "start", h.StartDomain(ctx, spec.ID), seedbed.ErrConflict)
	is(t, "shut down", h.ShutdownDomain(ctx, spec.ID), seedbed.ErrConflict)
	is(t, "destroy", h.DestroyDomain(ctx, spec.ID), seedbed.ErrConflict)
	is(t, "undefine", h.UndefineDomain(ctx, spec.ID), seedbed.ErrConflict)
	_, err := h.DomainState(ctx, spec.ID)
	is(t, "state", err, seedbed.ErrNotFound)
	_, err = h.Console(ctx, spec.ID, console)
	is(t, "console", err, seedbed.ErrNotFound)
	if _, ok := listed(t, h, spec.ID); ok {
		t.Fatal("Domains lists a domain without the tag")
	}
	other := d.Spec(t)
	other.Name = spec.Name
	is(t, "define with its name", h.DefineDomain(ctx, other), seedbed.ErrConflict)
}

func testUndefineRunning(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	is(t, "undefine while running", h.UndefineDomain(ctx, spec.ID), seedbed.ErrInUse)
	if got, err := h.DomainState(ctx, spec.ID); err != nil || got.State != seedbed.DomainRunning {
		t.Fatalf("state after the refusal: %+v, %v", got, err)
	}
}

// testShutdown checks that asking does not depend on the guest: the domain may run on or be off,
// and can be asked again and destroyed in both cases.
func testShutdown(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	ok(t, "shut down while off", h.ShutdownDomain(ctx, spec.ID))
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	for range 2 {
		ok(t, "shut down", h.ShutdownDomain(ctx, spec.ID))
	}
	got, err := h.DomainState(ctx, spec.ID)
	if err != nil || got.State != seedbed.DomainRunning && got.State != seedbed.DomainOff {
		t.Fatalf("state once asked: %+v, %v; want running or off", got, err)
	}
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	is(t, "shut down without a context", h.ShutdownDomain(ended, spec.ID), context.Canceled)
}

func testDefineTogether(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	defer undefine(t, h, spec.ID)
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = h.DefineDomain(ctx, spec) })
	}
	wg.Wait()
	ok(t, "define six times at once", errors.Join(errs...))
	if _, ok := listed(t, h, spec.ID); !ok {
		t.Fatal("the domain is not there")
	}
}

func testEndedHypervisor(t *testing.T, d HypervisorDriver) {
	h, spec := d.Open(t), d.Spec(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is(t, "define", h.DefineDomain(ctx, spec), context.Canceled)
	_, err := h.DomainState(t.Context(), spec.ID)
	is(t, "state", err, seedbed.ErrNotFound)
	_, err = h.Domains(ctx)
	is(t, "list", err, context.Canceled)
	is(t, "watch", h.Watch(ctx, func(seedbed.DomainEvent) {}), context.Canceled)
}

func testConsole(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	got, err := h.Console(ctx, spec.ID, console)
	if err != nil || len(got) != 0 {
		t.Fatalf("console before the start: %q, %v", got, err)
	}
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	all, err := h.Console(ctx, spec.ID, console)
	ok(t, "console", err)
	end, err := h.Console(ctx, spec.ID, 4)
	ok(t, "end of the console", err)
	if len(all) > int(console) || len(end) > 4 || !bytes.HasSuffix(all, end) {
		t.Fatalf("console %q ends with %q: want at most 4 bytes, its last ones", all, end)
	}
	ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
	ok(t, "define again", h.DefineDomain(ctx, spec))
	if got, err = h.Console(ctx, spec.ID, console); err != nil || len(got) != 0 {
		t.Fatalf("console of the undefined predecessor: %q, %v", got, err)
	}
}

func testDomainXML(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	absent := seedbed.NewInstanceID()
	all, err := h.DomainXML(ctx, []seedbed.InstanceID{spec.ID, absent})
	if err != nil || len(all) != 0 {
		t.Fatalf("before it is defined: %v, %v", all, err)
	}
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	all, err = h.DomainXML(ctx, []seedbed.InstanceID{absent, spec.ID})
	var doc struct {
		XMLName xml.Name `xml:"domain"`
		Name    string   `xml:"name"`
		UUID    string   `xml:"uuid"`
	}
	if err != nil || len(all) != 1 || xml.Unmarshal([]byte(all[spec.ID]), &doc) != nil || doc.Name != spec.Name ||
		doc.UUID != string(spec.ID) {
		t.Fatalf("definitions %v, %v; want that of %s", all, err, spec.Name)
	}
}

func testEvents(t *testing.T, d HypervisorDriver) {
	h, spec := d.Open(t), d.Spec(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, done := make(chan seedbed.DomainEvent, 256), make(chan error, 1)
	go func() { done <- h.Watch(ctx, func(e seedbed.DomainEvent) { events <- e }) }()
	defer func() {
		cancel()
		select {
		case err := <-done:
			is(t, "watch", err, context.Canceled)
		case <-time.After(patience):
			t.Error("Watch does not end with its context")
		}
	}()
	first := next(t, events, "")
	if first.Event != "resync" || first.ID != "" || first.At.IsZero() {
		t.Fatalf("first event: %+v; want resync without an ID", first)
	}
	for _, c := range []struct {
		event string
		do    func() error
	}{
		{"defined", func() error { return h.DefineDomain(ctx, spec) }},
		{"started", func() error { return h.StartDomain(ctx, spec.ID) }},
		{"stopped", func() error { return h.DestroyDomain(ctx, spec.ID) }},
		{"undefined", func() error { return h.UndefineDomain(ctx, spec.ID) }},
	} {
		ok(t, c.event, c.do())
		for {
			e := next(t, events, spec.ID)
			if e.Name != spec.Name || e.At.IsZero() {
				t.Fatalf("event: %+v", e)
			}
			if e.Event == c.event {
				break
			}
		}
	}
}

func testHealth(t *testing.T, d HypervisorDriver) {
	checks := d.Open(t).Health(t.Context())
	if len(checks) == 0 {
		t.Fatal("no checks")
	}
	for _, c := range checks {
		if c.Name == "" || !c.OK {
			t.Errorf("check: %+v", c)
		}
	}
}

func next(t *testing.T, events <-chan seedbed.DomainEvent, id seedbed.InstanceID) seedbed.DomainEvent {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.ID == id {
				return e
			}
		case <-deadline:
			t.Fatalf("no event of %q within %v", id, patience)
		}
	}
}

func listed(t *testing.T, h worker.Inspector, id seedbed.InstanceID) (seedbed.DomainInfo, bool) {
	t.Helper()
	all, err := h.Domains(t.Context())
	ok(t, "list", err)
	for _, d := range all {
		if d.ID == id {
			return d, true
		}
	}
	return seedbed.DomainInfo{}, false
}

func undefine(t *testing.T, h worker.Hypervisor, id seedbed.InstanceID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := errors.Join(h.DestroyDomain(ctx, id), h.UndefineDomain(ctx, id)); err != nil {
		t.Errorf("take down %s: %v", id, err)
	}
}
