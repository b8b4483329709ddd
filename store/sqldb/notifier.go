package sqldb

import "sync"

// Notifier wakes all goroutines that wait for it.
type Notifier struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next returns a channel that is closed at the next Wake.
func (b *Notifier) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

// Wake wakes all who wait.
func (b *Notifier) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
