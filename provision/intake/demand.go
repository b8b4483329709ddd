package intake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"seedbed"
	"seedbed/provision/placement"
)

// demands returns what the instance needs of a node, and what a system template (nil for none) and
// a request (which may name a node) require. volumes are those of the instance; a scripted instance
// has none yet, so they are those of its storage template. An image in known is not read again.
func (in *Intake) demands(ctx context.Context, inst seedbed.Instance, system *seedbed.SystemTemplate, volumes []seedbed.Volume, node string,
	known ...seedbed.Image) (placement.Demand, error) {
	w := placement.Demand{Name: inst.Name, Node: node, VCPUs: inst.VCPUs, Memory: inst.Memory, Images: known,
		Restarts: inst.System.Restart == seedbed.RestartAlways}
	if err := in.together(ctx, inst, &w); err != nil {
		return w, err
	}
	if system != nil {
		w.Template, w.Limit, w.Selector = system.Name, system.NodeLimit, system.NodeSelector
	}
	for _, v := range volumes {
		if w.Sizes == nil {
			w.Sizes = map[string]seedbed.Bytes{}
		}
		w.Sizes[v.Pool] += v.Size
		if !slices.Contains(w.Pools, v.Pool) {
			w.Pools = append(w.Pools, v.Pool)
		}
		if v.Image == "" || slices.ContainsFunc(w.Images, func(i seedbed.Image) bool { return i.Name == v.Image }) {
			continue
		}
		image, err := in.store.Image(ctx, v.Image)
		if err != nil {
			return w, err
		}
		w.Images = append(w.Images, image)
	}
	return w, nil
}

// together adds the placement group of an instance to what it needs of a node.
func (in *Intake) together(ctx context.Context, inst seedbed.Instance, w *placement.Demand) error {
	if w.ID = inst.ID; inst.PlacementGroup == "" {
		return nil
	}
	g, err := in.store.PlacementGroup(ctx, inst.PlacementGroup)
	w.Group, w.Policy = g.Name, g.Policy
	return err
}

// placementGroup returns the qualified name of the placement group that a request of a project names; empty for none. One that does not
// exist is ErrInvalid.
func (in *Intake) placementGroup(ctx context.Context, project, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	qualified := seedbed.QualifiedAll(project, []string{name})[0]
	if err := seedbed.CheckQualifiedName("placement group", qualified); err != nil {
		return "", err
	}
	if seedbed.ProjectOf(qualified) != project {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "placement group %q is not one of project %s", seedbed.Clip(name), project)
	}
	_, err := in.store.PlacementGroup(ctx, qualified)
	if errors.Is(err, seedbed.ErrNotFound) {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "placement group %q does not exist (seedbed placement-group add)", qualified)
	}
	return qualified, err
}

// poolKnown returns seedbed.ErrNotFound for a pool that is neither in this host's configuration nor
// in a node's report. It accepts every pool if the configured ones are not known.
func (in *Intake) poolKnown(ctx context.Context, pool string) error {
	if in.serving.Pools == nil || slices.Contains(in.serving.Pools, pool) {
		return nil
	}
	known, err := in.placer.Knows(ctx, pool)
	if err == nil && !known {
		err = seedbed.Errorf(seedbed.ErrNotFound, "no node has the pool %q", seedbed.Clip(pool))
	}
	return err
}

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

// unplaced returns the error of a placement. It does not tell a tenant which nodes there are, and what
// room they have.
func unplaced(ctx context.Context, err error) error {
	e, known := errors.AsType[*seedbed.Error](err)
	switch {
	case !known || !seedbed.IsTenant(ctx):
		return err
	case errors.Is(err, seedbed.ErrInvalid):
		return seedbed.Errorf(e.Kind, "no node can ever have it: ask for less")
	}
	return seedbed.Errorf(e.Kind, "no node has room for it now, or its placement group allows none: ask for less, or try again later")
}

// unheld returns the error for a pool in which no node can make an image. It does not tell a tenant which
// nodes there are.
func unheld(ctx context.Context, pool string, err error) error {
	if e, known := errors.AsType[*seedbed.Error](err); known && seedbed.IsTenant(ctx) {
		return seedbed.Errorf(e.Kind, "no node takes an image in the pool %q now", seedbed.Clip(pool))
	}
	return err
}

// macUsed returns the error for a MAC address that is used on a node. It does not tell a tenant by whom.
func macUsed(ctx context.Context, mac seedbed.MAC, node, by string) error {
	if seedbed.IsTenant(ctx) {
		return seedbed.Errorf(seedbed.ErrExists, "MAC address %s is taken", mac)
	}
	return seedbed.Errorf(seedbed.ErrExists, "MAC address %s is used on node %s already, by %s", mac, node, by)
}
