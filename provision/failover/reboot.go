package failover

import (
	"context"
	"errors"

	"seedbed"
)

// restart has the instances started again that ran on a node when it was switched off or rebooted, and whose restart is always. Nothing
// has changed their state since: the engine leaves it alone while the boot of the node is another than the recorded one. What an operator
// or the guest itself had stopped before is not among them. If it is interrupted, it is repeated: what runs by then is left alone, and
// what a job works on is that job's.
func (w *Watch) restart(ctx context.Context, n seedbed.Node) error {
	if n.Fencing.Boot == "" { // its first report
		return w.store.NoteBoot(ctx, n.Name, n.Report.Boot)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	all, err := w.store.Interrupted(ctx, n.Name)
	if err != nil {
		return err
	}
	off := map[seedbed.InstanceID]bool{}
	if len(all) > 0 {
		there, err := w.workers.Inventory(ctx, n.Name)
		if err != nil {
			return err
		}
		if !there.Complete && len(there.Domains) == 0 {
			return seedbed.Errorf(seedbed.ErrUnavailable, "the domains are not known: %s", there.Problem)
		}
		for _, d := range there.Domains {
			off[d.ID] = d.State == seedbed.DomainOff || d.State == seedbed.DomainCrashed
		}
	}
	for _, i := range all {
		if !off[i.ID] {
			continue
		}
		switch _, err := w.cfg.Submit(ctx, seedbed.Request{Action: seedbed.DoStart, Project: i.Project, Name: i.Name}); {
		case err == nil:
			w.cfg.Log.Info("an instance is started again, because its node rebooted", "node", n.Name, "instance", i.FullName().String())
		case errors.Is(err, seedbed.ErrUnavailable):
			return err
		default:
			w.cfg.Log.Warn("an instance is not started again after its node rebooted", "node", n.Name, "instance", i.FullName().String(),
				"err", err)
		}
	}
	return w.store.NoteBoot(ctx, n.Name, n.Report.Boot)
}
