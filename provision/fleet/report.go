package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// report asks all workers for their reports, repeatedly until ctx ends.
func (f *Fleet) report(ctx context.Context) {
	tick := time.NewTicker(f.every.report)
	defer tick.Stop()
	for {
		f.reportOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reportOnce asks each worker once, all at the same time, and records their answers.
func (f *Fleet) reportOnce(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, n := range f.Nodes() {
		group.Go(func() { f.reportOf(ctx, n.Name) })
	}
}

func (f *Fleet) reportOf(ctx context.Context, node string) {
	if err := f.noteReport(ctx, node); err != nil && ctx.Err() == nil {
		f.cfg.Log.Warn("the report of a node is not noted", "node", node, "err", err)
	}
}

func (f *Fleet) noteReport(ctx context.Context, node string) error {
	ask, cancel := context.WithTimeout(ctx, f.every.ask)
	defer cancel()
	r, err := effects.Report.Ask(ask, f.Of(node), effects.None{})
	if ctx.Err() != nil {
		return nil // this process is ending
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	// Record the result even if this process is about to end.
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.every.ask)
	defer cancel()
	err = f.cfg.Directory.NoteNode(write, node, r, problem, time.Now())
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil // removed in the meantime
	}
	return err
}
