package fleet_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
	"seedbed/provision/worker/drivertest"
)

// hostile is a worker that answers every call with that text, and does not end its answer.
func hostile(t *testing.T, answer string) (c *fleet.Client, at string) {
	t.Helper()
	at = way.place(t)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})}
	ln, done := way.listen(t, at), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return way.client(at), at
}

// TestLongLines checks that a compromised worker does not fill the memory of its client.
func TestLongLines(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for name, tt := range map[string]struct{ before, after string }{
		"output":        {`{"output":{"stream":"stdout","text":"`, `"}}`},
		"progress":      {`{"progress":{"done":1},"x":"`, `"}`},
		"event":         {`{"event":{"name":"`, `"}}`},
		"error":         {`{"error":{"kind":"full","message":"`, `"}}`},
		"a late result": {`{"output":{"text":"`, `"},"result":{}}`},
		"nothing known": {`{"x":"`, `"}`},
		"blanks":        {" ", " "},
	} {
		for _, end := range []string{"\n", ""} { // and one that does not end
			c, at := hostile(t, tt.before+strings.Repeat("x", 70<<10)+tt.after+end)
			_, err := effects.RunScript.Do(ctx, c, call(1), seedbed.ScriptTurn{Step: "setup"},
				effects.OnOutput(func(l seedbed.OutputLine) { t.Errorf("%s: passed on %d bytes", name, len(l.Text)) }))
			if err == nil || !strings.Contains(err.Error(), "the worker on "+at+" to run-script has a line that is too long") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestLongestLines checks that no line of a real worker is too long, however it is escaped.
func TestLongestLines(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\x01", int(seedbed.MaxOutputLine))
	c, _ := hostile(t, `{"output":{"stream":"stdout","text":"`+strings.Repeat(`\u0001`, len(text))+`"}}`+"\n"+`{"result":{}}`+"\n")
	heard := 0
	if _, err := effects.RunScript.Do(t.Context(), c, call(1), seedbed.ScriptTurn{Step: "setup"}, effects.OnOutput(func(l seedbed.OutputLine) {
		if heard++; l.Text != text {
			t.Errorf("output of %d bytes", len(l.Text))
		}
	})); err != nil || heard != 1 {
		t.Errorf("%d lines, %v", heard, err)
	}
	tail := bytes.Repeat([]byte("console "), 1<<17)
	c, _ = hostile(t, `{"result":"`+base64.StdEncoding.EncodeToString(tail)+`"}`+"\n")
	if got, err := effects.Console.Ask(t.Context(), c,
		effects.ConsoleTail{ID: seedbed.NewInstanceID(), Tail: seedbed.MiB}); err != nil || !bytes.Equal(got, tail) {
		t.Errorf("a result: %d bytes, %v", len(got), err)
	}
	l := start(t)
	l.pool.Fail(func(context.Context, string, drivertest.Point) error {
		return seedbed.Errorf(seedbed.ErrFull, "%s", strings.Repeat("<", 1<<20))
	})
	if _, err := effects.CloneVolume.Do(t.Context(), l, call(1), volume()); !errors.Is(err, seedbed.ErrFull) ||
		!strings.Contains(err.Error(), "<<<…") {
		t.Errorf("a long error: %.100v", err)
	}
}

// TestLongAnswerToUpload checks that the answer to an upload is limited as well, from its first
// byte on.
func TestLongAnswerToUpload(t *testing.T) {
	t.Parallel()
	at := way.place(t)
	ln, left := way.listen(t, at), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("x", 70<<10))
		<-left
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	answered := make(chan error, 1)
	go func() {
		_, err := way.client(at).ReceiveUpload(t.Context(), seedbed.UploadSpec{Pool: "default", ID: anUpload}, strings.NewReader("x"))
		answered <- err
	}()
	defer close(left)
	if err := wait(t, "end of the upload", answered); !errors.Is(err, seedbed.ErrUnavailable) ||
		!strings.Contains(err.Error(), "the worker on "+at) {
		t.Errorf("got %v", err)
	}
}
