package fleet_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/mtls"
	"seedbed/internal/run"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

// remote returns the transport over TLS, in either run.
func remote(t *testing.T) *overTLS {
	t.Helper()
	if o, ok := way.(*overTLS); ok {
		return o
	}
	o, err := newOverTLS(filepath.Join(t.TempDir(), "ca"))
	must(t, "identities", err)
	return o
}

// wire is a connection between a client and a server that can be cut, or held.
type wire struct {
	at   string
	mu   sync.Mutex
	held chan struct{} // closed when bytes flow again
	all  []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, "listen", err)
	w := &wire{at: scheme + ln.Addr().String()}
	var copying sync.WaitGroup
	copying.Go(func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to[len(scheme):])
			if err != nil {
				a.Close()
				continue
			}
			w.mu.Lock()
			w.all = append(w.all, a, b)
			w.mu.Unlock()
			copying.Go(func() { w.copy(a, b) })
			copying.Go(func() { w.copy(b, a) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		w.flow()
		w.cut()
		copying.Wait()
	})
	return w
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		held := w.held
		w.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, e := to.Write(buf[:n]); err != nil || e != nil {
			return
		}
	}
}

// hold stops all bytes from now on, as if a host had lost its power.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		w.held = make(chan struct{})
	}
}

func (w *wire) flow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held != nil {
		close(w.held)
		w.held = nil
	}
}

// cut ends all connections with a reset.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
	w.all = nil
}

// beyond starts a worker at the other end of a wire.
func beyond(t *testing.T) (*lab, *wire) {
	t.Helper()
	o := remote(t)
	l := startOver(t, o)
	w := newWire(t, l.at)
	l.Client = o.client(w.at)
	l.Client.Patient(patience)
	return l, w
}

// TestWireCut checks that a connection that breaks during a call is an error at once, and ends the
// call.
func TestWireCut(t *testing.T) {
	t.Parallel()
	l, w := beyond(t)
	started := gate(l, "CloneVolume")
	done := l.clone(t.Context(), call(1), volume())
	inner := wait(t, "start", started)
	w.cut()
	if err := wait(t, "end", done); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "broke before it had answered") {
		t.Error(err)
	}
	wait(t, "end of the call", inner.Done())
	l.pool.Fail(nil)
	_, err := effects.CloneVolume.Do(t.Context(), l, call(1), volume())
	must(t, "the next call", err)
}

// TestWireHeld checks that a call to a host that has disappeared without closing its connections
// ends when it is cancelled, and by itself after a silence.
func TestWireHeld(t *testing.T) {
	t.Parallel()
	l, w := beyond(t)
	started := gate(l, "CloneVolume")
	ctx, cancel := context.WithCancel(t.Context())
	done := l.clone(ctx, call(1), volume())
	wait(t, "start", started)
	w.hold()
	cancel()
	if err := wait(t, "end", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.flow()
	must(t, "flow", effects.RemoveVolume.Do(t.Context(), l, call(2),
		effects.VolumeRef{Pool: "default", Name: "none", Instance: seedbed.NewInstanceID()}))
	for silence := 100 * time.Millisecond; ; silence *= 4 { // until it is longer than the worker takes to begin
		l.Client.Silence(silence)
		done = l.clone(t.Context(), call(2), volume())
		var err error
		select {
		case err = <-done:
			if silence < patience/4 {
				continue
			}
		case <-started:
			w.hold()
			err = wait(t, "end", done)
		}
		if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "silent for "+silence.String()) {
			t.Error(err)
		}
		return
	}
}

// TestUploadHeld checks that an upload to a host that reads nothing any more ends with its context,
// at once.
func TestUploadHeld(t *testing.T) {
	t.Parallel()
	l, w := beyond(t)
	ctx, cancel := context.WithCancel(t.Context())
	body := &after{&endless{ctx: t.Context()}, 8 << 20, func() {}}
	body.do = func() {
		body.do = func() {}
		w.hold()
		time.AfterFunc(100*time.Millisecond, cancel)
	}
	done := make(chan error, 1)
	go func() {
		_, err := l.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "default", ID: anUpload}, body)
		done <- err
	}()
	if err := wait(t, "end", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.flow()
	w.cut()
}

// TestRemoteRefused checks that an error of a connection between hosts says where it is, and what
// would be right.
func TestRemoteRefused(t *testing.T) {
	t.Parallel()
	o := remote(t)
	l := startOver(t, o)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, "listen", err)
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
			c.Close()
		}
	}()
	t.Cleanup(func() { plain.Close() })
	dying, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, "listen", err)
	go func() {
		for {
			c, err := dying.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { dying.Close() })
	plane, err := o.identity(mtls.Metadata, "n1")
	must(t, "identity", err)
	right := o.conf()
	for name, c := range map[string]struct {
		client *fleet.Client
		kind   error
		want   string
	}{
		"a guest plane's certificate": {fleet.NewRemoteClient(l.at, plane.Client(mtls.Worker, "n1", "127.0.0.1")), seedbed.ErrUnavailable,
			"the worker on " + l.at + " refuses the certificate of this host (tls: bad certificate): its log says why"},
		"another node": {fleet.NewRemoteClient(l.at, o.other.Client(mtls.Worker, "n2", "127.0.0.1")), seedbed.ErrUnavailable,
			"the worker on " + l.at + ` is not trusted: its certificate is of node "n1", expected n2`},
		"another host": {fleet.NewRemoteClient(l.at, o.other.Client(mtls.Worker, "n1", "hv.example")), seedbed.ErrUnavailable,
			"issue it with --host hv.example"},
		"no worker at all": {fleet.NewRemoteClient(scheme+plain.Addr().String(), right), seedbed.ErrUnavailable,
			"is not trusted: tls: first record does not look like a TLS handshake"},
		"one that ends": {fleet.NewRemoteClient(scheme+dying.Addr().String(), right), seedbed.ErrUnavailable,
			"does not answer: the connection broke in the TLS handshake"},
		"nobody":  {fleet.NewRemoteClient(o.place(t), right), seedbed.ErrUnavailable, "(is seedbed-worker running?)"},
		"http":    {fleet.NewRemoteClient("http://hv2:7375", right), seedbed.ErrInvalid, "expected https://HOST:PORT"},
		"no port": {fleet.NewRemoteClient("https://hv2", right), seedbed.ErrInvalid, "expected https://HOST:PORT"},
		"a path":  {fleet.NewRemoteClient("https://hv2:7375/x", right), seedbed.ErrInvalid, "expected https://HOST:PORT"},
		"a user":  {fleet.NewRemoteClient("https://a@hv2:7375", right), seedbed.ErrInvalid, "expected https://HOST:PORT"},
		"nothing": {fleet.NewRemoteClient("", right), seedbed.ErrInvalid, "expected https://HOST:PORT"},
	} {
		_, err := effects.CloneVolume.Do(t.Context(), c.client, call(1), volume())
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %q", name, err, c.want)
		}
		_, err = c.client.ReceiveUpload(t.Context(), seedbed.UploadSpec{Pool: "default", ID: anUpload}, strings.NewReader("x"))
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: upload: got %v; want %q", name, err, c.want)
		}
	}
	if inv, err := effects.Inventory.Ask(t.Context(), l, effects.None{}); err != nil || len(inv.Volumes) != 0 {
		t.Errorf("left: %+v, %v", inv.Volumes, err)
	}
}

// TestBothListeners checks that one worker answers on its socket and to other hosts, and that its
// calls know of each other.
func TestBothListeners(t *testing.T) {
	t.Parallel()
	o := remote(t)
	socket, url := overSocket{}.place(t), o.place(t)
	pool := drivertest.NewPool()
	s := worker.New(worker.Config{Node: "n1", Pools: map[string]worker.Pool{"default": pool}, Hypervisor: drivertest.NewHypervisor(),
		Log:    slog.New(slog.DiscardHandler),
		Checks: func(context.Context) []seedbed.Check { return []seedbed.Check{{Name: "cluster.worker", OK: true}} }})
	near, err := run.Socket{Path: socket, Mode: 0o660}.Listen(t.Context())
	must(t, "listen", err)
	far := o.listen(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, near, far) }()
	here, there := &lab{Client: fleet.NewClient(socket), pool: pool}, &lab{Client: o.client(url), pool: pool}
	started := gate(here, "CloneVolume")
	spec := volume()
	older := here.clone(t.Context(), call(1), spec)
	wait(t, "start", started)
	newer := there.clone(t.Context(), call(2), spec)
	if err := wait(t, "older", older); !errors.Is(err, seedbed.ErrStale) {
		t.Errorf("the older call, over the socket: %v", err)
	}
	wait(t, "start of the newer", started)
	checks, err := effects.Health.Ask(t.Context(), there, effects.None{})
	if err != nil || !strings.Contains(names(checks), "cluster.worker") {
		t.Errorf("checks %v, %v", checks, err)
	}
	cancel()
	if err := wait(t, "newer", newer); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("the newer call: %v", err)
	}
	must(t, "serve", wait(t, "end", done))

	near = overSocket{}.listen(t, socket)
	far = o.listen(t, url)
	must(t, "close", near.Close())
	if err := s.Serve(t.Context(), near, far); !errors.Is(err, net.ErrClosed) {
		t.Errorf("with one listener that breaks: %v", err)
	}
}

func names(checks []seedbed.Check) (all string) {
	for _, c := range checks {
		all += c.Name + " "
	}
	return all
}
