package store

import "sync"

// notifier wakes all goroutines that wait for it.
type notifier struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next returns a channel that is closed at the next Wake.
func (b *notifier) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

// Wake wakes all who wait.
func (b *notifier) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
