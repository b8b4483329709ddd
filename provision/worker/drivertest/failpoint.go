package drivertest

import (
	"context"
	"sync"
)

// Point is where a failpoint stands.
type Point string

// The points of an effect.
const (
	// Before: nothing has happened; an error makes the effect fail.
	Before Point = "before"
	// After: the effect has happened; an error loses its answer.
	After Point = "after"
)

// Failpoint is called before and after each effect of an in-memory driver, by
// the name of its method, such as "CloneVolume". What it returns, the effect
// returns; it may block until ctx ends. It is not called for what only reads.
type Failpoint func(ctx context.Context, effect string, point Point) error

// failpoints is the part that both in-memory drivers have in common.
type failpoints struct {
	mu   sync.Mutex
	hook Failpoint
}

// Fail sets the failpoint; nil takes it away.
func (f *failpoints) Fail(hook Failpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// around runs effect between its two points, unless ctx has ended.
func (f *failpoints) around(ctx context.Context, name string, effect func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		return effect()
	}
	if err := hook(ctx, name, Before); err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	return hook(ctx, name, After)
}
