package drivertest

import (
	"context"
	"sync"
)

// Point says when a failpoint is called.
type Point string

// The points of an effect.
const (
	// Before: nothing has happened; an error makes the effect fail.
	Before Point = "before"
	// After: the effect has happened; an error loses its answer.
	After Point = "after"
)

// Failpoint is called before and after each effect of an in-memory driver, with the name of its
// method, such as "CloneVolume". The effect returns the error that it returns; it may block until
// ctx ends. It is not called for methods that only read.
type Failpoint func(ctx context.Context, effect string, point Point) error

// failpoints is the part that both in-memory drivers share.
type failpoints struct {
	mu   sync.Mutex
	hook Failpoint
}

// Fail sets the failpoint; nil removes it.
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
