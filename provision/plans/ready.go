package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/provision/effects"
)

// awaitGuest waits until the instance is ready by its policy. It fails as soon as the domain no
// longer runs, because the guest could then not become ready.
func (t *task) awaitGuest(ctx context.Context) error {
	changed, stop := t.Listen()
	defer stop()
	look := time.NewTicker(t.Intervals().Domain)
	defer look.Stop()
	done := t.Yield()
	defer done()
	due, waitingFor := true, ""
	for {
		hint := t.store.Hint()
		inst, err := t.Instance(ctx)
		switch {
		case ctx.Err() != nil && waitingFor != "":
			return inVain(waitingFor, t.Job.Subject)
		case err != nil:
			return err
		}
		done, still := readiness(inst)
		if done != "" {
			t.Event("info", 100, "%s", done)
			return nil
		}
		if waitingFor == "" {
			waitingFor = still
			t.Event("info", 0, "waiting until %s%s", waitingFor, atMost(ctx))
		}
		if due {
			if err := t.domainRuns(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return inVain(waitingFor, t.Job.Subject)
		case <-hint:
			sleep.For(ctx, t.Intervals().Ready)
		case <-time.After(t.Poll()):
		case <-changed:
			due = true
			continue
		case <-look.C:
			due = true
			continue
		}
		due = false
	}
}

// atMost says how long ctx lasts, if it ends.
func atMost(ctx context.Context) string {
	until, ends := ctx.Deadline()
	if !ends {
		return ""
	}
	return fmt.Sprintf(", for at most %s", time.Until(until).Round(time.Second))
}

func inVain(waitingFor, name string) error {
	return fmt.Errorf("waited in vain until %s: see its console (seedbed vm log %s)", waitingFor, name)
}

// readiness returns how the instance became ready or, if it is not ready yet, what it waits for.
func readiness(inst seedbed.Instance) (done, waitingFor string) {
	switch {
	case inst.Held:
		return "the instance is defined", ""
	case inst.Ready == seedbed.ReadyStarted:
		return "the guest was started", ""
	case inst.Ready == seedbed.ReadyReport && inst.Reported.IsZero():
		return "", "the guest reports in"
	case inst.Ready == seedbed.ReadyReport:
		return "the guest has reported in", ""
	case inst.Fetched.IsZero():
		return "", "the guest fetches its user-data"
	}
	return "the guest has fetched its user-data", ""
}

// domainRuns fails if the domain does not run. It ignores a worker that does not answer, because
// that says nothing about the guest.
func (t *task) domainRuns(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.Intervals().Call)
	defer cancel()
	info, err := effects.DomainState.Ask(ctx, t.Worker(), effects.DomainRef{ID: t.Job.Instance})
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s was removed by someone else before the guest was ready", t.Job.Subject)
	case err != nil:
		return nil
	case info.State == seedbed.DomainOff:
		return seedbed.Errorf(seedbed.ErrConflict, "the guest of domain %s went off before it was ready: see its console (seedbed vm log %s)",
			t.Job.Subject, t.Job.Subject)
	case info.State == seedbed.DomainCrashed:
		return seedbed.Errorf(seedbed.ErrConflict, "the guest of domain %s crashed before it was ready: see its console (seedbed vm log %s)",
			t.Job.Subject, t.Job.Subject)
	}
	return nil
}
