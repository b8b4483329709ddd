package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writes lets n writes wait for one that is being committed. It returns the outcomes, and the
// batches that were tried; the numbers of writes that were committed alone are negative.
func writes(t *testing.T, n int, bad func(int) bool, ctxs map[int]context.Context) (errs []error, tried [][]int) {
	t.Helper()
	var mu sync.Mutex
	release := make(chan struct{})
	errBad := errors.New("bad")
	q := New(8, time.Minute, func(ctx context.Context, take func() []*Write[int], alone bool) Result {
		batch := take()
		if batch[0].Do == 0 {
			<-release
		}
		mu.Lock()
		defer mu.Unlock()
		var all []int
		refused := false
		for _, w := range batch {
			if w.Err = w.Ctx.Err(); w.Err != nil {
				continue
			}
			all = append(all, w.Do)
			refused = refused || bad(w.Do)
		}
		if alone {
			tried = append(tried, []int{-batch[0].Do})
			batch[0].Err = errBad
			return Settled
		}
		tried = append(tried, all)
		if refused {
			return Refused
		}
		return Settled
	})
	errs = make([]error, n+1)
	var wg sync.WaitGroup
	for i := range errs {
		ctx := t.Context()
		if ctxs[i] != nil {
			ctx = ctxs[i]
		}
		wg.Go(func() { errs[i] = q.Do(ctx, i) })
		synctest.Wait()
	}
	if got := q.Len(); got != n {
		t.Errorf("%d wait, want %d", got, n)
	}
	close(release)
	wg.Wait()
	return errs[1:], tried
}

func TestQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n     int
		bad   []int
		tried [][]int
	}{
		"one batch":   {3, nil, [][]int{{0}, {1, 2, 3}}},
		"two batches": {10, nil, [][]int{{0}, {1, 2, 3, 4, 5, 6, 7, 8}, {9, 10}}},
		"halves":      {4, []int{3}, [][]int{{0}, {1, 2, 3, 4}, {1, 2}, {3, 4}, {3}, {4}, {-3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bad := map[int]bool{}
				for _, i := range c.bad {
					bad[i] = true
				}
				errs, tried := writes(t, c.n, func(i int) bool { return bad[i] }, nil)
				if diff := cmp.Diff(c.tried, tried); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
				for i, err := range errs {
					if (err != nil) != bad[i+1] {
						t.Errorf("write %d: %v", i+1, err)
					}
				}
			})
		})
	}
}

// A caller that gives up while it waits is left out, and the other writes are committed, even if
// that caller would have led them.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone, leave := context.WithCancel(t.Context())
		errs, tried := func() ([]error, [][]int) {
			return writes(t, 3, func(i int) bool {
				if i == 0 {
					leave()
				}
				return false
			}, map[int]context.Context{1: gone})
		}()
		if diff := cmp.Diff([][]int{{0}, {2, 3}}, tried); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if !errors.Is(errs[0], context.Canceled) || errs[1] != nil || errs[2] != nil {
			t.Errorf("outcomes %v", errs)
		}
	})
}

// A batch whose commit panics is no follower's success, whatever the attempt has noted before.
func TestCommitPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		arrived := make(chan struct{})
		q := New(3, time.Minute, func(_ context.Context, take func() []*Write[int], _ bool) Result {
			<-arrived
			for _, w := range take() {
				w.Err = nil
			}
			panic("in the commit")
		})
		errs := make([]error, 3)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				defer func() {
					if p := recover(); p != nil {
						errs[i] = fmt.Errorf("%v", p)
					}
				}()
				errs[i] = q.Do(t.Context(), i)
			})
			synctest.Wait()
		}
		close(arrived)
		wg.Wait()
		if errs[0] == nil || !errors.Is(errs[1], errAbandoned) || !errors.Is(errs[2], errAbandoned) {
			t.Errorf("outcomes %v", errs)
		}
	})
}

// Writes that arrive while the transaction begins are in its batch.
func TestArriveDuringBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		var sizes []int
		q := New(3, time.Minute, func(_ context.Context, take func() []*Write[int], _ bool) Result {
			<-begun
			sizes = append(sizes, len(take()))
			for _, w := range take() {
				w.Err = nil
			}
			return Settled
		})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if err := q.Do(t.Context(), i); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(begun)
		wg.Wait()
		if diff := cmp.Diff([]int{3, 1}, sizes); diff != "" {
			t.Errorf("sizes of the batches (-want +got):\n%s", diff)
		}
	})
}
