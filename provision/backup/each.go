package backup

import (
	"context"
	"sync"
	"sync/atomic"

	"seedbed"
)

// workers is how many chunks are in work at once. Each takes about 16 MiB.
const workers = 4

// each calls f for 0 to n-1, from several goroutines. worker is the number of the goroutine, below workers. The first error ends it.
func each(ctx context.Context, n int, f func(ctx context.Context, worker, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range min(workers, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(ctx, w, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// meter adds up what is done.
type meter struct {
	mu     sync.Mutex
	done   seedbed.Bytes
	total  seedbed.Bytes
	report func(seedbed.Progress)
}

func (m *meter) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += seedbed.Bytes(n)
	if m.report != nil {
		m.report(seedbed.Progress{Done: m.done, Total: m.total})
	}
}
