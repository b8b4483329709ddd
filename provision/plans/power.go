package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// startPlan starts the domain of an existing instance.
func (t *task) startPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{{Name: "start", Run: t.startAgain, State: seedbed.InstanceRunning}}}
}

// startAgain starts a domain that may have been off for long.
func (t *task) startAgain(ctx context.Context) error {
	off, err := t.isOff(ctx)
	if err != nil {
		return err
	}
	if off { // else the guest itself would answer for its addresses
		if err := t.refuseUsed(ctx); err != nil {
			return err
		}
	}
	return t.restartDomain(ctx)
}

// stopPlan shuts down the guest of an instance, or switches it off. The instance stays defined, and
// keeps its addresses and volumes.
func (t *task) stopPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "shutdown", Run: t.shutdownGuest, Limit: t.shutdownLimit, Undo: t.reassure},
		{Name: "stop", Run: t.switchOff, State: seedbed.InstanceStopped},
	}}
}

// rebootPlan stops an instance like stopPlan, and starts it again.
func (t *task) rebootPlan() engine.Plan {
	return engine.Plan{
		Restores: t.was(),
		Stages: []engine.Stage{
			{Name: "shutdown", Run: t.shutdownGuest, Limit: t.shutdownLimit, Undo: strict(t.reassure)},
			{Name: "stop", Run: t.switchOff, Undo: strict(t.switchOn), State: seedbed.InstanceStopped},
			{Name: "start", Run: t.restartDomain, State: seedbed.InstanceRunning},
		},
	}
}

// power returns how the job switches off its instance.
func (t *task) power() (p seedbed.PowerSpec, err error) {
	if len(t.Job.Spec) == 0 {
		return p, nil
	}
	err = t.input(&p) // a RebuildSpec has the same fields
	return p, err
}

// grace returns how long the guest has to shut down.
func (t *task) grace() time.Duration {
	p, _ := t.power() // a spec that cannot be parsed fails the stage
	return cmp.Or(p.Grace, t.Timeout("shutdown"), time.Minute)
}

// shutdownLimit returns the time limit of a stage that waits for a guest to shut down: the guest's
// time, and the time of asking it.
func (t *task) shutdownLimit(context.Context) time.Duration {
	return t.grace() + 2*t.Intervals().Call
}

// shutdownGuest tells the guest of its end, asks it to shut down, and waits until it has. A guest
// that does not shut down is left to the next stage.
func (t *task) shutdownGuest(ctx context.Context) error {
	p, err := t.power()
	if err != nil {
		return err
	}
	action := seedbed.ActionShutdown
	if t.Job.Kind == seedbed.JobReboot {
		action = seedbed.ActionReboot
	}
	if err := t.announce(ctx, action); err != nil {
		return err
	}
	if p.Force {
		t.Event("info", 100, "the guest is not asked to shut down, as was asked for")
		return nil
	}
	err = t.awaitOff(ctx, t.grace())
	switch {
	case err == nil:
		return nil
	case t.retried(ctx, err):
		return err
	case p.Soft:
		return seedbed.Errorf(seedbed.ErrConflict, "%s; it was not switched off, as was asked for", err)
	}
	t.Event("warn", 100, "%s: it is switched off", err)
	return nil
}

// retried reports whether an error is about the job or the worker rather than about the guest.
func (t *task) retried(ctx context.Context, err error) bool {
	return ctx.Err() != nil || engine.Unavailable(err) || errors.Is(err, seedbed.ErrStale) || errors.Is(err, engine.ErrLost)
}

// awaitOff asks the guest to shut down and waits until its domain is off. It repeats the request,
// because a guest that is booting ignores it.
func (t *task) awaitOff(ctx context.Context, grace time.Duration) error {
	changed, stop := t.Listen()
	defer stop()
	if t.off.IsZero() { // otherwise an earlier try has set it
		t.off = time.Now().Add(grace)
	}
	over := time.NewTimer(time.Until(t.off))
	defer over.Stop()
	again := time.NewTicker(t.Intervals().Ask)
	defer again.Stop()
	done := t.Yield()
	defer done()
	due, asked := true, false
	for {
		off, err := t.isOff(ctx)
		switch {
		case err != nil:
			return err
		case off && asked:
			t.Event("info", 100, "the guest has shut down")
			return nil
		case off:
			t.Event("info", 100, "the guest is off already")
			return nil
		case asked && !time.Now().Before(t.off): // the request has used up the rest of the time
			return fmt.Errorf("the guest has not shut down within %s", grace)
		}
		if due {
			if err := t.askGuest(ctx); err != nil {
				return fmt.Errorf("ask the guest of domain %s to shut down: %w", t.Job.Subject, err)
			}
			if !asked {
				t.Event("info", 0, "the guest is asked to shut down, and has %s to do so", grace)
			}
			asked = true
		}
		due = false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			return fmt.Errorf("the guest has not shut down within %s", grace)
		case <-again.C:
			due = true
		case <-changed:
		case <-time.After(t.Intervals().Domain):
		}
	}
}

// askGuest asks the guest to shut down. An agent that accepts the request but never answers counts
// as asked.
func (t *task) askGuest(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, t.Intervals().Call)
	defer cancel()
	err := t.Effect(short, func(ctx context.Context, call seedbed.Call) error {
		return effects.ShutdownDomain.Do(ctx, t.Worker(), call, effects.DomainRef{ID: t.Job.Instance})
	})
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return nil
	}
	return err
}

// guest is where a guest runs, and its name.
type guest struct {
	id         seedbed.InstanceID
	node, name string
}

// own returns the guest of the job's instance.
func (t *task) own() guest { return guest{t.Job.Instance, t.Node(), t.Job.Subject} }

// domainNow returns the state of the domain, and reports whether it exists.
func (t *task) domainNow(ctx context.Context) (info seedbed.DomainInfo, exists bool, err error) {
	return t.domainOf(ctx, t.own())
}

// domainOf is domainNow of a guest.
func (t *task) domainOf(ctx context.Context, g guest) (info seedbed.DomainInfo, exists bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Intervals().Call)
	defer cancel()
	info, err = effects.DomainState.Ask(ctx, t.WorkerOf(g.node), effects.DomainRef{ID: g.id})
	if errors.Is(err, seedbed.ErrNotFound) {
		return info, false, nil
	}
	if err != nil {
		return info, false, fmt.Errorf("state of domain %s: %w", g.name, err)
	}
	return info, true, nil
}

// isOff reports whether the domain is off or does not exist.
func (t *task) isOff(ctx context.Context) (bool, error) { return t.guestIsOff(ctx, t.own()) }

// guestIsOff is isOff of a guest.
func (t *task) guestIsOff(ctx context.Context, g guest) (bool, error) {
	info, exists, err := t.domainOf(ctx, g)
	return err == nil && (!exists || info.State == seedbed.DomainOff || info.State == seedbed.DomainCrashed), err
}

// switchOff makes sure that the domain is off.
func (t *task) switchOff(ctx context.Context) error {
	off, err := t.isOff(ctx)
	if err != nil {
		return err
	}
	if !off {
		t.Event("info", 0, "the domain is switched off")
	}
	return t.destroyDomain(ctx)
}

// reassure withdraws the announcement of the guest's end. It starts a guest that was asked to go
// off and is to run again; a guest that is still shutting down cannot be stopped from doing so.
func (t *task) reassure(ctx context.Context) error {
	if t.Job.Kind == seedbed.JobStop {
		return t.announce(ctx, "")
	}
	off, err := t.isOff(ctx)
	if err != nil {
		return err
	}
	if off {
		return t.switchOn(ctx)
	}
	t.Event("warn", 0, "the domain runs: its guest may still shut down, if it was asked to")
	return t.announce(ctx, "")
}

// switchOn starts the domain again if it ran when the job was accepted.
func (t *task) switchOn(ctx context.Context) error {
	p, err := t.power()
	if err != nil {
		return err
	}
	if p.Was == seedbed.InstanceStopped {
		return t.announce(ctx, "")
	}
	return t.restartDomain(ctx)
}

// strict wraps an undo that restores something. For such an undo, a missing or foreign resource
// does not mean that everything is undone, as it does for an undo that removes something.
func strict(undo func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := undo(ctx)
		if errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrConflict) {
			return errors.New(err.Error())
		}
		return err
	}
}

// was returns the state of the instance when the job was accepted.
func (t *task) was() seedbed.InstanceState {
	p, _ := t.power() // a spec that cannot be parsed fails the stage
	return p.Was
}
