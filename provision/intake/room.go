package intake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"seedbed"
)

// lowRoom is the free space below which a pool is reported as low.
const lowRoom = 1 * seedbed.GiB

// planRoom notes a domain that is in the way, and the pools that new volumes of these sizes may
// fill.
func (in *Intake) planRoom(ctx context.Context, p *seedbed.Plan, grow map[string]seedbed.Bytes) error {
	in.planDomain(ctx, p)
	notes, err := in.room(ctx, p.Node, grow, false)
	p.Notes = append(p.Notes, notes...)
	return err
}

// room says which pools of a node are low, or would be once all volumes were full, by the last
// report of the node. grow is what the volumes of a request may grow to in each pool, or by which
// they grow. reserved is set if the placement counts them already. It says nothing to a tenant.
func (in *Intake) room(ctx context.Context, node string, grow map[string]seedbed.Bytes, reserved bool) (notes []string, err error) {
	if seedbed.IsTenant(ctx) {
		return nil, nil
	}
	for _, pool := range slices.Sorted(maps.Keys(grow)) {
		info, known, err := in.placer.Room(ctx, node, pool)
		if err != nil {
			return notes, err
		}
		if !known {
			continue
		}
		if info.Problem != "" {
			notes = append(notes, fmt.Sprintf("pool %s of node %s is unavailable: %s", pool, node, info.Problem))
			continue
		}
		switch {
		case info.Free < lowRoom:
			notes = append(notes, fmt.Sprintf("pool %s of node %s has only %s free of %s: give it room, "+
				"or the job or the guest may find it full", pool, node, info.Free.Human(), info.Size.Human()))
		case info.Free < grow[pool]:
			notes = append(notes, fmt.Sprintf("the volumes in pool %s may grow to %s, and it has %s free", pool, grow[pool].Human(),
				info.Free.Human()))
		}
		promised, err := in.placer.Promised(ctx, node, pool)
		if err != nil {
			return notes, err
		}
		if !reserved {
			promised += grow[pool]
		}
		if promised > info.Size {
			notes = append(notes, fmt.Sprintf("pool %s of node %s has %s, and all its volumes together may grow to %s: it is %s over", pool, node,
				info.Size.Human(), promised.Human(), (promised-info.Size).Human()))
		}
	}
	return notes, nil
}
