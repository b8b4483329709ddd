package effects

import (
	"context"
	"encoding/json"

	"seedbed"
	"seedbed/internal/duplex"
)

// Handlers are the effects that a worker can carry out, by name.
type Handlers map[string]Handler

// Handler carries out one effect.
type Handler struct {
	// Fenced is set for an effect that changes something for a job. It carries a call, and is the
	// only such call of its job that runs.
	Fenced bool
	// Endless is set for a call that runs until its client disconnects.
	Endless bool
	// Run carries out one call. All functions of the listener are set.
	Run func(ctx context.Context, call seedbed.Call, args json.RawMessage, to Listener) (json.RawMessage, error)
	// Channel is set instead of Run for a Channel. It serves one connection.
	Channel func(ctx context.Context, args json.RawMessage, c *duplex.Conn) error
}

// Handle makes f carry out the effect.
func (e Effect[A, R]) Handle(h Handlers, f func(context.Context, seedbed.Call, A, Listener) (R, error)) {
	h[e.name] = Handler{Fenced: true, Run: typed(f)}
}

// Handle makes f carry out the effect.
func (o Order[A]) Handle(h Handlers, f func(context.Context, seedbed.Call, A) error) {
	h[o.name] = Handler{Fenced: true, Run: typed(func(ctx context.Context, call seedbed.Call, args A, _ Listener) (None, error) {
		return None{}, f(ctx, call, args)
	})}
}

// Handle makes f answer the query.
func (q Query[A, R]) Handle(h Handlers, f func(context.Context, A) (R, error)) {
	h[q.name] = Handler{Run: typed(func(ctx context.Context, _ seedbed.Call, args A, _ Listener) (R, error) {
		return f(ctx, args)
	})}
}

// Handle makes f send the events until its context ends.
func (s Stream) Handle(h Handlers, f func(context.Context, func(seedbed.DomainEvent)) error) {
	h[s.name] = Handler{Endless: true, Run: typed(func(ctx context.Context, _ seedbed.Call, _ None, to Listener) (None, error) {
		return None{}, f(ctx, to.Event)
	})}
}

func typed[A, R any](
	f func(context.Context, seedbed.Call, A, Listener) (R, error),
) func(context.Context, seedbed.Call, json.RawMessage, Listener) (json.RawMessage, error) {
	return func(ctx context.Context, call seedbed.Call, raw json.RawMessage, to Listener) (json.RawMessage, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, seedbed.Errorf(seedbed.ErrInvalid, "arguments of the call: %v", err)
			}
		}
		result, err := f(ctx, call, args, to)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	}
}
