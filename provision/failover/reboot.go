package failover

import (
	"context"
	"errors"
	"time"

	"seedbed"
)

// busyTime is how long an instance is waited for that a job works on while its node is back after a reboot.
const busyTime = 10 * time.Minute

// reboot is what a watch does about a node that rebooted.
type reboot struct {
	boot  string
	since time.Time
	// asked are the instances whose start was requested, or refused for good.
	asked map[seedbed.InstanceID]bool
}

// rebootOf returns what is done about the present boot of a node.
func (w *Watch) rebootOf(n seedbed.Node, now time.Time) *reboot {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.reboots[n.Name]
	if r == nil || r.boot != n.Report.Boot {
		r = &reboot{n.Report.Boot, now, map[seedbed.InstanceID]bool{}}
		w.reboots[n.Name] = r
	}
	return r
}

// restart has the instances started again that ran on a node when it was switched off or rebooted, and whose restart is always. Nothing
// has changed their state since: the engine leaves it alone while the boot of the node is another than the recorded one. What an operator
// or the guest itself had stopped before is not among them. If it is interrupted, it is repeated: what runs by then is left alone. One that
// a job works on, such as a backup that the reboot interrupted, is waited for.
func (w *Watch) restart(ctx context.Context, n seedbed.Node, now time.Time) error {
	if n.Fencing.Boot == "" { // its first report
		return w.store.NoteBoot(ctx, n.Name, n.Report.Boot)
	}
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
	r := w.rebootOf(n, now)
	var busy error
	for _, i := range all {
		if !off[i.ID] || r.asked[i.ID] {
			continue
		}
		_, err := w.cfg.Submit(ctx, seedbed.Request{Action: seedbed.DoStart, Project: i.Project, Name: i.Name})
		switch {
		case err == nil:
			w.cfg.Log.Info("an instance is started again, because its node rebooted", "node", n.Name, "instance", i.FullName().String())
		case errors.Is(err, seedbed.ErrUnavailable), ctx.Err() != nil:
			return err
		case errors.Is(err, seedbed.ErrInUse) && now.Sub(r.since) < busyTime:
			busy = err
			continue
		default:
			w.cfg.Log.Warn("an instance is not started again after its node rebooted", "node", n.Name, "instance", i.FullName().String(),
				"err", err)
		}
		r.asked[i.ID] = true
	}
	if busy != nil {
		return busy
	}
	return w.store.NoteBoot(ctx, n.Name, n.Report.Boot)
}
