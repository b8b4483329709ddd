package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// chore is an item with the function that does it. done is false if there was nothing to do after
// all.
type chore struct {
	Item
	apply func(context.Context) (done bool, err error)
}

// plan lists everything that is due at now before any of it is done, so that a dry run and a real
// one report the same. A domain that is missed for the first time now cannot be due, because Grace
// is above zero.
func (c *Cleaner) plan(ctx context.Context, now time.Time, s inventory) ([]chore, error) {
	var todo []chore
	cutoff := now.Add(-c.cfg.Grace)
	stale, err := c.store.StaleMappings(ctx, cutoff)
	if err != nil {
		return nil, fmt.Errorf("list stale mappings: %w", err)
	}
	for _, inst := range stale {
		// An instance of a skipped node keeps its addresses, even if its domain was missed before.
		// A domain may also be present again, which a dry run has not recorded.
		if !slices.Contains(s.nodes, inst.Node) || slices.Contains(s.present, inst.ID) {
			continue
		}
		todo = append(todo, chore{
			Item{Task: "mappings", Action: "release", Subject: inst.FullName().String(),
				Detail: fmt.Sprintf("no domain since %s; %s", inst.GoneSince.UTC().Format(time.RFC3339), addresses(inst))},
			func(ctx context.Context) (bool, error) { return c.store.DropMapping(ctx, inst.ID, cutoff) },
		})
	}
	expired, err := c.expiries(ctx, now)
	if err != nil {
		return nil, err
	}
	todo = append(todo, expired...)
	leases, err := c.store.ExpiredLeases(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("list expired leases: %w", err)
	}
	for i, l := range leases {
		todo = append(todo, chore{
			Item{Task: "leases", Action: "delete", Subject: l.MAC.String(),
				Detail: fmt.Sprintf("%s, expired %s", l.Addr, l.Until.UTC().Format(time.RFC3339))},
			func(ctx context.Context) (bool, error) {
				if i > 0 {
					return true, nil // the first item's call removed them all
				}
				_, err := c.store.DropLeases(ctx, now)
				return true, err
			},
		})
	}
	records := []struct {
		task, what string
		age        time.Duration
		count      func(context.Context, time.Time) (int, error)
		drop       func(context.Context, time.Time) (int, error)
	}{
		{"deliveries", "webhook deliveries", c.cfg.Deliveries, c.store.CountDeliveries, c.store.DropDeliveries},
		{"outgoing", "outgoing deliveries", c.cfg.Deliveries, c.store.CountOutgoing, c.store.DropOutgoing},
		{"access", "guest events", c.cfg.Access, c.store.CountGuestEvents, c.store.DropGuestEvents},
		{"output", "lines of output", c.cfg.Output, c.store.CountOutput, c.store.DropOutput},
		{"audit", "audit entries", c.cfg.Audit, c.store.CountAudit, c.store.DropAudit},
		{"requests", "requests with an idempotency key", seedbed.KeptFor, c.store.CountRequests, c.store.DropRequests},
		{"sessions", "expired sessions", 0, c.store.CountSessions, c.store.DropSessions},
		{"sign-ins", "expired sign-ins", 0, c.store.CountSignIns, c.store.DropSignIns},
	}
	for _, r := range records {
		before := now.Add(-r.age)
		n, err := r.count(ctx, before)
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", r.what, err)
		}
		if n > 0 {
			detail := "their time has passed"
			if r.age > 0 {
				detail = fmt.Sprintf("older than %s", r.age)
			}
			todo = append(todo, chore{
				Item{Task: r.task, Action: "delete", Subject: fmt.Sprintf("%d %s", n, r.what), Detail: detail},
				func(ctx context.Context) (bool, error) { n, err := r.drop(ctx, before); return n > 0, err },
			})
		}
	}
	rotated, err := c.rotations(ctx)
	if err != nil {
		return nil, err
	}
	todo = append(todo, rotated...)
	undo, err := c.orphans(ctx, now, s)
	if err != nil {
		return nil, err
	}
	todo = append(todo, undo...)
	began := time.Now()
	for _, item := range s.due {
		todo = append(todo, c.purge(item, began))
	}
	return todo, nil
}

func addresses(inst seedbed.Instance) string {
	var all []string
	for _, nic := range inst.NICs {
		all = append(all, fmt.Sprintf("%s %s of network %s", nic.MAC, nic.Addr, nic.Network))
	}
	if all == nil {
		return "it has no address"
	}
	return "frees " + strings.Join(all, ", ")
}
