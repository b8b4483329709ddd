package effects

import (
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
)

// Worker carries out effects on one node. A fleet's client does so over the wire.
//
// Do returns the result of a call as JSON; Effect, Order, Query and Stream encode its arguments and
// decode its result. In addition to the errors of the effect itself it returns ErrUnavailable if
// the worker does not answer, stops, or is lost during the call, or if the deadline passes (the
// error is then context.DeadlineExceeded, too), and ErrStale if the call's epoch is not its job's
// newest.
type Worker interface {
	Do(ctx context.Context, x Exchange) (json.RawMessage, error)
	// Supersede ends what the worker does for the call's job. From then on the worker refuses
	// earlier epochs of the job. Supersede returns when everything has ended.
	Supersede(ctx context.Context, call seedbed.Call) error
}

// Exchange is one call of an effect, as a Worker receives it.
type Exchange struct {
	// Effect is the name of the effect.
	Effect string
	// Call identifies the job's call; it is zero for a call that is not made for a job.
	Call seedbed.Call
	// Args are the arguments, which are sent as JSON; nil sends none.
	Args any
	// Endless is set for a call that runs until its context ends. Such a call always returns an
	// error.
	Endless bool
	Listener
}

// Listener receives what happens during a call. Each function may be nil. They are called from one
// goroutine at a time, and never after the call has returned.
type Listener struct {
	// Progress gets the latest progress; earlier progress may be skipped.
	Progress func(seedbed.Progress)
	// Event gets the changes of domains.
	Event func(seedbed.DomainEvent)
	// Output gets each line that commands and scripts print. If it is nil, the lines go to the
	// context's sink, if any.
	Output func(seedbed.OutputLine)
}

// Option sets one of a call's listeners.
type Option func(*Listener)

// OnProgress makes the call report its progress to f. f may be nil.
func OnProgress(f func(seedbed.Progress)) Option { return func(l *Listener) { l.Progress = f } }

// OnOutput makes the call pass each printed line to f. f may be nil.
func OnOutput(f func(seedbed.OutputLine)) Option { return func(l *Listener) { l.Output = f } }

// None stands for the arguments or the result of an effect that has none.
type None struct{}

// Effect is an effect that changes something for a job, with arguments A and a result R. The worker
// runs one such call of a job at a time, and refuses calls of an earlier epoch.
type Effect[A, R any] struct{ name string }

// Do has the worker carry out the effect.
func (e Effect[A, R]) Do(ctx context.Context, w Worker, call seedbed.Call, args A, options ...Option) (R, error) {
	x := exchange(e.name, args)
	x.Call = call
	for _, set := range options {
		set(&x.Listener)
	}
	return ask[R](ctx, w, x)
}

// Order is an Effect without a result.
type Order[A any] struct{ name string }

// Do has the worker carry out the effect.
func (o Order[A]) Do(ctx context.Context, w Worker, call seedbed.Call, args A) error {
	_, err := Effect[A, None](o).Do(ctx, w, call, args)
	return err
}

// Query is a call that is not made for a job: it only reads, or an operator asked for it.
type Query[A, R any] struct{ name string }

// Ask has the worker answer the query.
func (q Query[A, R]) Ask(ctx context.Context, w Worker, args A) (R, error) {
	return ask[R](ctx, w, exchange(q.name, args))
}

// Stream is a call that sends events until its context ends.
type Stream struct{ name string }

// Follow calls event for every event until ctx ends or the connection breaks, and returns the
// reason: the context's error or, usually, ErrUnavailable.
func (s Stream) Follow(ctx context.Context, w Worker, event func(seedbed.DomainEvent)) error {
	_, err := ask[None](ctx, w, Exchange{Effect: s.name, Endless: true, Listener: Listener{Event: event}})
	return err
}

func exchange(name string, args any) Exchange {
	if args == (None{}) {
		args = nil
	}
	return Exchange{Effect: name, Args: args}
}

// ask makes the call and decodes its result.
func ask[R any](ctx context.Context, w Worker, x Exchange) (R, error) {
	var result R
	raw, err := w.Do(ctx, x)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("the worker's answer to %s: %w", x.Effect, err)
	}
	return result, nil
}
