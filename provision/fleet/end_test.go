package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

// gate makes an effect block: started receives the context it runs under, and the effect continues
// when that ends.
func gate(l *lab, effect string) (started chan context.Context) {
	started = make(chan context.Context, 8)
	l.pool.Fail(func(ctx context.Context, name string, at drivertest.Point) error {
		if name != effect || at != drivertest.Before {
			return nil
		}
		started <- ctx
		<-ctx.Done()
		return ctx.Err()
	})
	return started
}

func wait[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %s", what, patience)
		panic("unreachable")
	}
}

// clone requests a volume in the background.
func (l *lab) clone(ctx context.Context, c seedbed.Call, spec seedbed.VolumeSpec) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := effects.CloneVolume.Do(ctx, l, c, spec)
		done <- err
	}()
	return done
}

func TestCancel(t *testing.T) {
	t.Parallel()
	l := start(t)
	started := gate(l, "CloneVolume")
	ctx, cancel := context.WithCancel(t.Context())
	done := l.clone(ctx, call(1), volume())
	inner := wait(t, "start", started)
	cancel()
	err := wait(t, "end", done)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if inner.Err() == nil {
		t.Fatal("the call returned before the effect had ended")
	}
	l.pool.Fail(nil)
	_, err = effects.CloneVolume.Do(t.Context(), l, call(1), volume())
	must(t, "the next call", err)
}

// late makes calls whose time is over before they end, with more time each until one has come as
// far as it should.
func (l *lab) late(t *testing.T, c seedbed.Call, spec seedbed.VolumeSpec, farEnough func(error) bool) error {
	t.Helper()
	for limit := 50 * time.Millisecond; ; limit *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := wait(t, "end", l.clone(ctx, c, spec))
		cancel()
		if farEnough(err) || limit > patience/4 {
			return err
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	l := start(t)
	started := gate(l, "CloneVolume")
	err := l.late(t, call(1), volume(), func(error) bool { return len(started) > 0 })
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, seedbed.ErrUnavailable) ||
		!strings.Contains(err.Error(), "clone-volume did not end within") {
		t.Fatal(err)
	}
}

// TestDeafDriver checks that a driver that does not notice the end of its context does not delay
// its client, and that the job's next call waits for it.
func TestDeafDriver(t *testing.T) {
	t.Parallel()
	l := start(t)
	entered, release := make(chan struct{}, 8), make(chan struct{})
	l.pool.Fail(func(_ context.Context, _ string, at drivertest.Point) error {
		if at == drivertest.Before {
			entered <- struct{}{}
			<-release
		}
		return nil
	})
	spec := volume()
	err := l.late(t, call(1), spec, func(error) bool { return len(entered) > 0 })
	if !errors.Is(err, seedbed.ErrUnavailable) {
		t.Fatal(err)
	}
	const waits = "earlier call of job 5f3c1a30 (stage volumes, epoch 1) has not ended"
	err = l.late(t, call(2), spec, func(err error) bool { return err != nil && strings.Contains(err.Error(), waits) })
	if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), waits) {
		t.Fatal(err)
	}
	next := l.clone(t.Context(), call(2), spec)
	close(release)
	must(t, "once released", wait(t, "third end", next))
}

func TestNewerEpochEndsOlder(t *testing.T) {
	t.Parallel()
	l := start(t)
	started := gate(l, "CloneVolume")
	spec := volume()
	older := l.clone(t.Context(), call(1), spec)
	inner := wait(t, "start", started)
	newer := l.clone(t.Context(), call(2), spec)
	if err := wait(t, "older", older); !errors.Is(err, seedbed.ErrStale) {
		t.Fatalf("older: %v", err)
	}
	if inner.Err() == nil {
		t.Fatal("the older call goes on")
	}
	wait(t, "start of the newer", started)
	if err := wait(t, "late", l.clone(t.Context(), call(1), spec)); !errors.Is(err, seedbed.ErrStale) {
		t.Fatalf("late call of the older epoch: %v", err)
	}
	must(t, "stop", l.stop())
	if err := wait(t, "newer", newer); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "stopping") {
		t.Fatalf("newer, as the worker stops: %v", err)
	}
}

// post sends a raw call and returns the connection.
func post(t *testing.T, l *lab, path, body string) net.Conn {
	t.Helper()
	conn, err := l.over.dial(l.at)
	must(t, "dial", err)
	// A body that is too large is refused before all of it is read, so the write may fail.
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: worker\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	return conn
}

func rawClone(t *testing.T, c seedbed.Call) string {
	t.Helper()
	args, err := json.Marshal(volume())
	must(t, "marshal", err)
	body, err := json.Marshal(map[string]any{"call": c, "timeout_ms": 60000, "args": json.RawMessage(args)})
	must(t, "marshal", err)
	return string(body)
}

func TestLostClient(t *testing.T) {
	t.Parallel()
	l := start(t)
	started := gate(l, "CloneVolume")
	conn := post(t, l, "/v1/clone-volume", rawClone(t, call(1)))
	inner := wait(t, "start", started)
	must(t, "close", conn.Close())
	wait(t, "end of the call", inner.Done())
	l.pool.Fail(nil)
	_, err := effects.CloneVolume.Do(t.Context(), l, call(1), volume())
	must(t, "the next call", err)
}

func TestCancelWithoutID(t *testing.T) {
	t.Parallel()
	l := start(t)
	started := gate(l, "CloneVolume")
	done := l.clone(t.Context(), call(3), volume())
	inner := wait(t, "start", started)
	body, err := json.Marshal(map[string]any{"call": call(3)})
	must(t, "marshal", err)
	conn := post(t, l, "/v1/cancel", string(body))
	defer conn.Close()
	wait(t, "end of the call", inner.Done())
	if err := wait(t, "end", done); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "cancelled") {
		t.Fatal(err)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	l := start(t)
	good := rawClone(t, call(1))
	for _, c := range []struct{ name, path, body, want string }{
		{"no JSON", "/v1/clone-volume", "{", "400 Bad Request"},
		{"unknown effect", "/v1/format-disk", good, "older than its seedbedd"},
		{"no timeout", "/v1/clone-volume", strings.Replace(good, "60000", "0", 1), "timeout_ms is 0"},
		{"negative timeout", "/v1/clone-volume", strings.Replace(good, "60000", "-1", 1), "timeout_ms is -1"},
		{"other path", "/v1/clone-volume/", good, "404"},
		{"too large", "/v1/clone-volume", strings.Repeat(" ", 9<<20), "413"},
		{"arguments of another shape", "/v1/start-domain", `{"call":{"job":"j","epoch":1},"timeout_ms":1000,"args":{"id":7}}`,
			"arguments of the call"},
	} {
		conn := post(t, l, c.path, c.body)
		must(t, "deadline", conn.SetDeadline(time.Now().Add(patience)))
		b := make([]byte, 64<<10)
		got := ""
		for !strings.Contains(got, c.want) {
			n, err := conn.Read(b)
			got += string(b[:n])
			if err != nil {
				break
			}
		}
		conn.Close()
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q; want %q", c.name, got, c.want)
		}
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	l := start(t)
	spec := volume()
	first, err := effects.CloneVolume.Do(t.Context(), l, call(1), spec)
	must(t, "clone", err)
	must(t, "stop", l.stop())
	_, err = effects.CloneVolume.Do(t.Context(), l, call(1), spec)
	if !errors.Is(err, seedbed.ErrUnavailable) ||
		!strings.Contains(err.Error(), "the worker does not answer on "+l.at+" (is seedbed-worker running?)") {
		t.Fatal(err)
	}
	l.serve(t)
	again, err := effects.CloneVolume.Do(t.Context(), l, call(1), spec)
	if err != nil || again != first {
		t.Fatalf("%+v, %v; want %+v", again, err, first)
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	l := start(t)
	l.pool.Fail(func(context.Context, string, drivertest.Point) error { panic("boom") })
	_, err := effects.CloneVolume.Do(t.Context(), l, call(1), volume())
	if err == nil || !strings.Contains(err.Error(), "the driver panicked: boom") {
		t.Fatal(err)
	}
	l.pool.Fail(nil)
	_, err = effects.CloneVolume.Do(t.Context(), l, call(1), volume())
	must(t, "the next call", err)
}

// crooked listens and passes each connection to treat.
func crooked(t *testing.T, treat func(net.Conn)) *fleet.Client {
	t.Helper()
	at := way.place(t)
	ln := way.listen(t, at)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			treat(conn)
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return way.client(at)
}

func TestCrookedWorker(t *testing.T) {
	t.Parallel()
	answer := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			b := make([]byte, 4096)
			_, _ = c.Read(b)
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}
	const head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
	open := make(chan net.Conn, 1)
	defer func() { (<-open).Close() }()
	for _, c := range []struct {
		name  string
		treat func(net.Conn)
		want  string
	}{
		{"killed at once", func(c net.Conn) { c.Close() }, "broke before it had answered"},
		{"killed in the middle", answer(head + `{"progress":{"done":"1","total":"2"}}` + "\n"), "broke before it had answered"},
		{"killed in a line", answer(head + `{"resu`), "broke before it had answered"},
		{"something else", answer("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\nbusy"), "503 Service Unavailable"},
		{"stopped", func(c net.Conn) { open <- c }, "silent for 200ms"},
	} {
		client := crooked(t, c.treat)
		client.Patient(patience)
		if c.name == "stopped" {
			client.Silence(200 * time.Millisecond)
		}
		_, err := effects.CloneVolume.Do(t.Context(), client, call(1), volume())
		if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %q", c.name, err, c.want)
		}
	}
}

func TestServeEnds(t *testing.T) {
	t.Parallel()
	server := func() *worker.Server {
		return worker.New(worker.Config{Node: "n1", Hypervisor: drivertest.NewHypervisor(), Log: slog.New(slog.DiscardHandler)})
	}
	for range 20 { // before, while and after it begins to serve
		ln := way.listen(t, way.place(t))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server().Serve(ctx, ln) }()
		cancel()
		must(t, "serve", wait(t, "end", done))
	}
	ln := way.listen(t, way.place(t))
	must(t, "close", ln.Close())
	if err := server().Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a listener that breaks: %v", err)
	}
}
