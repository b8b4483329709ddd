package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/testdb"
	"seedbed/webhook"
	"seedbed/webhook/outbox"
	"seedbed/webhook/signature"
)

// intake is never asked: the hook ignores what it has verified.
type intake struct{ webhook.Intake }

// What is sent passes the verifier of the receiver, before, while and after a key is rotated, and
// what is signed with another key does not.
func TestVerified(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	db := testdb.Open(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	receiver := webhook.New(webhook.Config{Hooks: db, History: db, Jobs: db, Intake: intake{}, Log: log, APIBase: "http://127.0.0.1:7370"})
	d := outbox.New(outbox.Config{Store: db, Directory: db, Node: "node1", Log: log})
	working, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, run := range []func() error{
		func() error { return receiver.Serve(working, ln) },
		func() error { return d.Run(working) },
	} {
		group.Go(func() {
			if err := run(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		group.Wait()
		must(db.Close())
	})

	first, second := signature.NewSecret(), signature.NewSecret()
	hook := func(name string, key []byte) {
		t.Helper()
		_, err := db.CreateHook(ctx, seedbed.Hook{Name: name, HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeStandard, When: "false"},
			Keys: []seedbed.HookKey{{ID: "k1", Secret: key}}, Tolerance: time.Minute})
		must(err)
	}
	hook("old", first)
	hook("new", second)
	for _, name := range []string{"old", "new"} {
		_, err := db.CreateEndpoint(ctx, seedbed.Endpoint{Name: name, URL: "http://" + ln.Addr().String() + "/hooks/" + name,
			Events:       []string{"*"},
			AllowPrivate: true, Keys: []seedbed.EndpointKey{{Key: first}}})
		must(err)
	}
	status := func(endpoint string) int {
		t.Helper()
		a, err := d.Test(ctx, endpoint)
		must(err)
		return a.Status
	}
	expect := func(when string, oldHook, newHook int) {
		t.Helper()
		if a, b := status("old"), status("new"); a != oldHook || b != newHook {
			t.Errorf("%s: %d with the old key and %d with the new one, want %d and %d", when, a, b, oldHook, newHook)
		}
	}
	rotate := func(overlap time.Duration) {
		t.Helper()
		for _, name := range []string{"old", "new"} {
			_, err := db.RotateEndpointKeys(ctx, name, []seedbed.EndpointKey{{Key: second}}, overlap)
			must(err)
		}
	}
	expect("before the rotation", 202, 401)
	rotate(time.Hour)
	expect("while both sign", 202, 202)

	// An event, not a test, takes the whole way.
	must(db.CleanupFinished(ctx, map[string]int{"leases": 1}))
	for _, name := range []string{"old", "new"} {
		for {
			hint := db.Hint()
			sent, err := db.OutgoingDeliveries(ctx, name, seedbed.OutgoingQuery{State: seedbed.OutgoingSent, Limit: 1})
			must(err)
			if len(sent) == 1 && sent[0].Status == 202 {
				break
			}
			select {
			case <-hint:
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%s was told nothing", name)
			}
		}
	}
	rotate(0)
	expect("after the rotation", 401, 202)

	// One that is sent at once, whatever the endpoint subscribes to, and whose answer counts.
	trigger := func(endpoint string, want error, words string) {
		t.Helper()
		err := d.Trigger(ctx, endpoint, seedbed.Outgoing{ID: "hook_1", Type: seedbed.EventJobHook, At: time.Now(), Data: []byte(`{}`)})
		if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("trigger %s: %v", endpoint, err)
		}
	}
	trigger("new", nil, "")
	trigger("old", seedbed.ErrUnavailable, "401")
	trigger("none", seedbed.ErrNotFound, "none")
	_, err = db.ChangeEndpoint(ctx, "new", seedbed.EndpointChange{Enabled: new(bool)})
	must(err)
	trigger("new", seedbed.ErrConflict, "disabled")
}
