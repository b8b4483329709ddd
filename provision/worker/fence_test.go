package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

func call(epoch int64) seedbed.Call { return seedbed.Call{Job: "job", Epoch: epoch, Stage: "volumes"} }

// attempt is a call that tries to enter.
type attempt struct {
	ctx   context.Context // the context it runs under
	leave func()
	err   error
	in    chan struct{}
}

func try(ctx context.Context, f *fence, id string, c seedbed.Call) *attempt {
	a := &attempt{in: make(chan struct{})}
	go func() {
		defer close(a.in)
		a.ctx, a.leave, a.err = f.enter(ctx, id, c)
	}()
	return a
}

// entered reports whether an attempt has ended, once everything else waits.
func (a *attempt) entered() bool {
	synctest.Wait()
	select {
	case <-a.in:
		return true
	default:
		return false
	}
}

func TestFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, f := t.Context(), newFence(time.Now)
		first := try(ctx, f, "1", call(5))
		if !first.entered() || first.err != nil {
			t.Fatal("the first call does not enter")
		}
		if older := try(ctx, f, "2", call(4)); !older.entered() || !errors.Is(older.err, seedbed.ErrStale) {
			t.Fatalf("older epoch: %v", older.err)
		}
		same := try(ctx, f, "3", call(5))
		if same.entered() || first.ctx.Err() != nil {
			t.Fatal("a second call of the same epoch does not wait, or ends the first")
		}
		other := try(ctx, f, "4", seedbed.Call{Job: "other", Epoch: 1})
		if !other.entered() || other.err != nil {
			t.Fatal("another job waits")
		}
		newer := try(ctx, f, "5", call(6))
		if newer.entered() {
			t.Fatal("a newer call does not wait for the end of the older")
		}
		if !errors.Is(context.Cause(first.ctx), seedbed.ErrStale) {
			t.Fatalf("the older call goes on: %v", context.Cause(first.ctx))
		}
		if !same.entered() || !errors.Is(same.err, seedbed.ErrStale) {
			t.Fatalf("the older call that waits goes on waiting: %v", same.err)
		}
		first.leave()
		if !newer.entered() || newer.err != nil || newer.ctx.Err() != nil {
			t.Fatalf("newer: %v", newer.err)
		}
		newer.leave()
		other.leave()
		if again := try(ctx, f, "6", call(5)); !again.entered() || !errors.Is(again.err, seedbed.ErrStale) {
			t.Fatalf("older epoch, once all have ended: %v", again.err)
		}
	})
}

func TestFenceWaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFence(time.Now)
		hung := try(t.Context(), f, "1", call(1))
		hung.entered()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := f.enter(ctx, "2", call(2))
		if !errors.Is(err, seedbed.ErrUnavailable) || err.Error() != "the earlier call of job job (stage volumes, epoch 1) has not ended" {
			t.Fatal(err)
		}
		hung.leave()
	})
}

func TestFenceStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, f := t.Context(), newFence(time.Now)
		a, b := try(ctx, f, "a", call(3)), (*attempt)(nil)
		a.entered()
		b = try(ctx, f, "b", call(3))
		b.entered()
		if ends, err := f.stop("none", call(3)); err != nil || len(ends) != 0 || a.ctx.Err() != nil {
			t.Fatalf("stop of an unknown call: %d, %v", len(ends), err)
		}
		if _, err := f.stop("", call(2)); !errors.Is(err, seedbed.ErrStale) {
			t.Fatalf("stop by an older epoch: %v", err)
		}
		if ends, err := f.stop("", seedbed.Call{Job: "unknown"}); err != nil || len(ends) != 0 {
			t.Fatalf("stop in an unknown job: %d, %v", len(ends), err)
		}
		ends, err := f.stop("b", call(3))
		if err != nil || len(ends) != 1 || !b.entered() || b.err == nil || a.ctx.Err() != nil {
			t.Fatalf("stop of the call that waits: %d, %v, %v", len(ends), err, b.err)
		}
		<-ends[0]
		ends, err = f.stop("", call(3))
		if err != nil || len(ends) != 1 || a.ctx.Err() == nil {
			t.Fatalf("stop of the rest: %d, %v", len(ends), err)
		}
		a.leave()
		<-ends[0]
		if ends, err := f.stop("", call(5)); err != nil || len(ends) != 0 {
			t.Fatalf("stop for a newer epoch: %d, %v", len(ends), err)
		}
		late := try(ctx, f, "late", call(4))
		if !late.entered() || !errors.Is(late.err, seedbed.ErrStale) {
			t.Fatalf("a call of the epoch before: %v", late.err)
		}
	})
}

func TestFenceForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, f := t.Context(), newFence(time.Now)
		pass := func(job string, epoch int64) error {
			_, leave, err := f.enter(ctx, "", seedbed.Call{Job: seedbed.JobID(job), Epoch: epoch})
			if err == nil {
				leave()
			}
			return err
		}
		_, leave, err := f.enter(ctx, "", seedbed.Call{Job: "long", Epoch: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if err := pass(fmt.Sprint(i), 7); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(23 * time.Hour)
		if err := pass("0", 6); !errors.Is(err, seedbed.ErrStale) {
			t.Fatalf("forgotten too early: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if err := pass("new", 1); err != nil {
			t.Fatal(err)
		}
		if len(f.jobs) != 3 { // 0, whose fence was used; long, which runs; new
			t.Errorf("%d jobs are remembered", len(f.jobs))
		}
		leave()
	})
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	for i := range 10 {
		o.progress(seedbed.Progress{Done: seedbed.Bytes(i)})
	}
	for i := range maxQueue + 2 {
		o.event(seedbed.DomainEvent{Event: "started", Name: fmt.Sprint(i)})
	}
	lines := o.take()
	if len(lines) != 3 || lines[0].Progress.Done != 9 || lines[1].Event.Event != "resync" || lines[2].Event.Name != fmt.Sprint(maxQueue+1) {
		t.Fatalf("%d lines", len(lines))
	}
	if lines := o.take(); len(lines) != 0 {
		t.Errorf("%d lines twice", len(lines))
	}
}
