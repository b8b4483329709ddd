package cgate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

const one = "ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab"

var testConfig = Config{Library: "libvirt", Owner: "the libvirt driver", Subject: "domain", Hint: "restart it", Limit: 2 * time.Minute}

func TestGateGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, hang := New(testConfig), make(chan struct{})
		stuck := func(context.Context) (int, error) { <-hang; return 1, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Through(ctx, g, "start", one, stuck)
		if !errors.Is(err, seedbed.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("deadline: %v", err)
		}
		_, err = Through(ctx, g, "destroy", one, stuck)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended context: %v", err)
		}
		// A second call for the domain waits for the first one's real end.
		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = Through(cancelled, g, "destroy", one, func(context.Context) (int, error) { t.Error("passed the call before"); return 0, nil })
		if !errors.Is(err, context.Canceled) || errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("cancelled behind a stuck call: %v", err)
		}
		// Another domain does not wait.
		if v, err := Through(t.Context(), g, "start", "other", func(context.Context) (int, error) { return 7, nil }); v != 7 || err != nil {
			t.Errorf("another domain: %d, %v", v, err)
		}
		if n := g.Stuck(); n != 1 {
			t.Errorf("%d calls are stuck; want 1", n)
		}
		close(hang)
		synctest.Wait()
		if n := g.Stuck(); n != 0 || len(g.locks) != 0 {
			t.Errorf("%d calls are stuck, %d domains locked; want none", n, len(g.locks))
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := Through(t.Context(), g, "start", one, stuck); !errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestGateBoundsStuckCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, hang := New(testConfig), make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range MaxStuck {
			go Through(ctx, g, "list", "", func(context.Context) (int, error) { <-hang; return 0, nil })
		}
		<-ctx.Done()
		synctest.Wait()
		_, err := Through(t.Context(), g, "list", "", func(context.Context) (int, error) { t.Error("let in"); return 0, nil })
		if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "8 earlier calls") {
			t.Errorf("got %v", err)
		}
		closing, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := g.Close(closing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		close(hang)
	})
}

func TestGateSetsALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		_, err := Through(t.Context(), New(testConfig), "list", "", func(context.Context) (int, error) { <-hang; return 0, nil })
		if !errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		close(hang)
	})
}
