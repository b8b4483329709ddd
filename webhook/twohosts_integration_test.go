//go:build integration

package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/internal/testdb"
	"seedbed/provision"
	"seedbed/provision/intake"
	"seedbed/store"
	"seedbed/webhook"
	"seedbed/webhook/signature"
)

// Keys are changed at one control host, and webhooks come to another: the new key counts there at
// once, and one that was removed ends there.
func TestKeysOfTwoHosts(t *testing.T) {
	s := lab.Postgres(t)
	at := s.DSN(s.Database(t, ""))
	if err := store.Migrate(t.Context(), store.Config{DSN: at, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	one, other := testdb.OpenDSN(t, at), testdb.OpenDSN(t, at)
	defer one.Close()
	defer other.Close()
	requests := provision.NewIntake(other, intake.Serving{Node: "host1"})
	furnish(t, one, provision.NewIntake(one, intake.Serving{Node: "host1"}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := webhook.New(webhook.Config{Hooks: other, HookNow: other.HookNow, History: other, Jobs: other, Intake: requests,
		Log: slog.New(slog.DiscardHandler)})
	serving, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(serving, ln) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	sent := 0
	send := func(hook string, key []byte) int {
		t.Helper()
		sent++
		id, now, body := fmt.Sprint("msg_", sent), time.Now(), `{"action":"plan","name":"web1","profile":"small"}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+ln.Addr().String()+"/hooks/"+hook, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{"Content-Type": "application/json", signature.HeaderID: id,
			signature.HeaderTimestamp: strconv.FormatInt(now.Unix(), 10), signature.HeaderSignature: signature.Sign(key, id, now, []byte(body))} {
			req.Header.Set(name, v)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	defer http.DefaultClient.CloseIdleConnections()
	old, next := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	const hooks = 25
	for n := range hooks { // the announcement of a change comes sooner or later than the first webhook
		name := fmt.Sprint("hook", n)
		h := seedbed.Hook{Name: name, Keys: []seedbed.HookKey{{ID: "old", Secret: old}}, Actions: []string{"plan"}}
		h.Scheme = seedbed.SchemeStandard
		if _, err := one.CreateHook(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if got := send(name, old); got != http.StatusOK { // it is remembered from now on
			t.Fatalf("before the rotation: %d", got)
		}
		if _, err := one.RotateHook(t.Context(), name, seedbed.HookKey{ID: "next", Secret: next}, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := send(name, next); got != http.StatusOK {
			t.Errorf("%s: the new key, at once: %d", name, got)
		}
		if got := send(name, old); got != http.StatusOK {
			t.Errorf("%s: the key before, in the overlap: %d", name, got)
		}
		check := func(_, left seedbed.Hook) error { return webhook.CheckKeys(left) }
		if _, err := one.RemoveHookKey(t.Context(), name, "old", check); err != nil {
			t.Fatal(err)
		}
	}
	for n := range hooks {
		name := fmt.Sprint("hook", n)
		lab.Await(t, time.Minute, "the removed key of "+name+" to end", func() bool { return send(name, old) == http.StatusUnauthorized })
		if got := send(name, next); got != http.StatusOK {
			t.Errorf("%s: the key that is left: %d", name, got)
		}
	}
}
