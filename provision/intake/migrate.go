package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"seedbed"
	"seedbed/provision/placement"
)

// migrate accepts a request to take an instance to another node.
func (in *Intake) migrate(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (receipt seedbed.Receipt, err error) {
	inst, spec, demand, err := in.migrating(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	reservation, err := in.placer.Choose(ctx, demand)
	if err != nil {
		return seedbed.Receipt{}, unplaced(ctx, err)
	}
	// The store counts the instance for the node from then on.
	defer func() { reservation.Settle(err == nil && !receipt.Duplicate) }()
	job := jobOn(inst, seedbed.JobMigrate, req.JobOptions)
	goesTo(&spec, reservation.Node)
	if job.Spec, err = json.Marshal(spec); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the migration of %s: %w", inst.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery})
}

// migrating checks a request to take an instance to another node. The spec names no target yet; demand is what that must have.
func (in *Intake) migrating(ctx context.Context, req seedbed.Request) (
	inst seedbed.Instance, spec seedbed.MigrateSpec, demand placement.Demand, err error,
) {
	asked, err := migration(req)
	if err != nil {
		return inst, spec, demand, err
	}
	req.Params = nil
	if inst, err = in.existing(ctx, req); err != nil {
		return inst, spec, demand, err
	}
	spec = seedbed.MigrateSpec{PowerSpec: asked.power, From: inst.Node}
	spec.Was = inst.State
	if spec.Lost, err = in.lost(ctx, inst, asked); err == nil && !spec.Lost {
		spec.Live, err = asked.live(inst)
	}
	if err != nil {
		return inst, spec, demand, err
	}
	switch {
	case asked.back && inst.Home == "":
		err = seedbed.Errorf(seedbed.ErrConflict, "instance %q is to go back to no node: it has not been migrated from one", inst.Name)
	case asked.back && req.Node != "":
		err = seedbed.Errorf(seedbed.ErrInvalid, "param back names the node: expected no other one")
	case asked.back:
		req.Node = inst.Home
	case !asked.stay:
		spec.Home = cmp.Or(inst.Home, inst.Node)
	}
	if err != nil {
		return inst, spec, demand, err
	}
	if err := in.movable(ctx, inst, spec.Live); err != nil {
		return inst, spec, demand, err
	}
	demand = placement.Demand{Name: inst.Name, Node: req.Node, Limit: inst.System.NodeLimit,
		Selector: inst.System.NodeSelector, VCPUs: inst.VCPUs, Memory: inst.Memory, Pools: poolsOf(inst), From: inst.Node, Live: spec.Live}
	return inst, spec, demand, in.together(ctx, inst, &demand)
}

// lost reports whether the node of an instance was fenced. From there only instances go elsewhere that the node does not start by itself.
func (in *Intake) lost(ctx context.Context, inst seedbed.Instance, asked migrationAsked) (bool, error) {
	all, err := in.store.Nodes(ctx)
	at := slices.IndexFunc(all, func(n seedbed.Node) bool { return n.Name == inst.Node })
	switch {
	case err != nil || at < 0 || all[at].Fencing.Fenced.IsZero():
		return false, err
	case asked.method == seedbed.MigrateLive || asked.power != (seedbed.PowerSpec{}):
		return false, seedbed.Errorf(seedbed.ErrConflict, "node %s was fenced, so instance %q is off: move it without a method",
			inst.Node, inst.Name)
	case inst.State != seedbed.InstanceRunning && inst.State != seedbed.InstanceStopped:
		return false, seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s: it must be running or stopped to go to another node",
			inst.Name, inst.State)
	case inst.System.Autostart:
		return false, seedbed.Errorf(seedbed.ErrConflict, "instance %q starts with node %s, which was fenced: it would run twice once that is "+
			"back", inst.Name, inst.Node)
	}
	return true, nil
}

// goesTo notes the node that an instance goes to. At home, it has no node to go back to.
func goesTo(spec *seedbed.MigrateSpec, node string) {
	if spec.To = node; spec.Home == node {
		spec.Home = ""
	}
}

// poolsOf returns the pools of an instance's volumes, sorted.
func poolsOf(inst seedbed.Instance) []string {
	pools := map[string]bool{}
	for _, v := range inst.Volumes {
		pools[v.Pool] = true
	}
	for _, v := range inst.Attached {
		pools[v.Pool] = true
	}
	return slices.Sorted(maps.Keys(pools))
}

// movable returns ErrConflict for an instance that cannot go to another node: a volume of it is on its node alone, or its guest has a
// device of the node.
func (in *Intake) movable(ctx context.Context, inst seedbed.Instance, live bool) error {
	volumes := map[string]string{}
	for _, v := range slices.Backward(inst.Attached) {
		volumes[v.Pool] = v.Name
	}
	for _, v := range slices.Backward(inst.Volumes) {
		volumes[v.Pool] = v.Name
	}
	if inst.CDROM != "" {
		image, err := in.store.Image(ctx, inst.CDROM)
		if err != nil {
			return err
		}
		if err := in.placer.Shares(ctx, image.Pool); err != nil {
			return seedbed.Errorf(seedbed.ErrConflict, "instance %q cannot leave node %s: image %q, which is in its CD-ROM drive, is in a "+
				"pool of that node: eject it first (seedbed vm cdrom eject %s) (%v)", inst.Name, inst.Node, inst.CDROM, inst.Name, err)
		}
	}
	for _, pool := range poolsOf(inst) {
		if err := in.placer.Shares(ctx, pool); err != nil {
			return seedbed.Errorf(seedbed.ErrConflict, "instance %q cannot leave node %s: volume %q is in a pool of that node: %v", inst.Name,
				inst.Node, volumes[pool], err)
		}
	}
	if !live {
		return nil
	}
	for _, nic := range inst.NICs {
		network, err := in.store.Network(ctx, nic.Network)
		if err != nil {
			return err
		}
		if network.Kind == seedbed.NetworkDirect && network.Mode == seedbed.DirectSRIOV {
			return seedbed.Errorf(seedbed.ErrConflict, "instance %q cannot be migrated while it runs: its NIC %d is a device of node %s: "+
				"switch it off for it (seedbed vm move %s --cold)", inst.Name, nic.Index, inst.Node, inst.Name)
		}
	}
	return nil
}

// migrationAsked are the params of a request to take an instance to another node.
type migrationAsked struct {
	method string
	// back is set if it goes back to its home, and stay if it is to stay where it goes.
	back, stay bool
	power      seedbed.PowerSpec
}

// migration parses the params of such a request.
func migration(req seedbed.Request) (asked migrationAsked, err error) {
	power, rest, err := powerSpec(req.Params)
	if err != nil {
		return asked, err
	}
	asked.power = power
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		v := rest[name]
		ok := false
		switch name {
		case "method":
			asked.method, ok = v.(string)
			if !ok || !slices.Contains([]string{"", seedbed.MigrateLive, seedbed.MigrateCold}, asked.method) {
				return asked, seedbed.Errorf(seedbed.ErrInvalid, "param method is not usable: expected live or cold")
			}
		case "back":
			asked.back, ok = v.(bool)
		case "stay":
			asked.stay, ok = v.(bool)
		default:
			return asked, seedbed.Errorf(seedbed.ErrInvalid,
				"param %q is unknown: action %s accepts method, back, stay, force, soft and grace", seedbed.Clip(name), req.Action)
		}
		if !ok {
			return asked, seedbed.Errorf(seedbed.ErrInvalid, "param %s is %s: expected true or false", name, kindOf(v))
		}
	}
	if asked.method != seedbed.MigrateCold && asked.power != (seedbed.PowerSpec{}) {
		return asked, seedbed.Errorf(seedbed.ErrInvalid, "force, soft and grace say how a guest is switched off: they need method cold")
	}
	return asked, nil
}

// live reports whether the guest of an instance is migrated while it runs, as was asked for.
func (a migrationAsked) live(inst seedbed.Instance) (bool, error) {
	switch {
	case inst.State != seedbed.InstanceRunning && inst.State != seedbed.InstanceStopped:
		return false, seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s: it must be running or stopped to go to another node",
			inst.Name, inst.State)
	case inst.State == seedbed.InstanceStopped && a.method == seedbed.MigrateLive:
		return false, seedbed.Errorf(seedbed.ErrConflict, "instance %q is stopped: move it (seedbed vm move %s)", inst.Name, inst.Name)
	case inst.System.TPM && (inst.State == seedbed.InstanceStopped || a.method == seedbed.MigrateCold):
		return false, seedbed.Errorf(seedbed.ErrConflict, "instance %q has a TPM, whose state goes to another node only with a guest that runs: "+
			"start it, and migrate it while it runs (seedbed vm migrate %s)", inst.Name, inst.Name)
	case inst.State == seedbed.InstanceStopped || a.method == seedbed.MigrateCold:
		return false, nil
	case a.method == "":
		return false, seedbed.Errorf(seedbed.ErrConflict, "instance %q is running: migrate it while it runs (seedbed vm migrate %s), "+
			"or have it switched off for the move (--cold)", inst.Name, inst.Name)
	case inst.System.MigrationMethod == "shutdown":
		return false, seedbed.Errorf(seedbed.ErrConflict, "instance %q is only switched off to go to another node, as its system template "+
			"says (migration_method): seedbed vm move %s --cold", inst.Name, inst.Name)
	}
	return true, nil
}

// planMigrate returns what a request to take an instance to another node would do, and why it would not be accepted.
func (in *Intake) planMigrate(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: req.Project, Name: req.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	inst, spec, demand, err := in.migrating(ctx, req)
	p.Profile, p.Image, p.VCPUs, p.Memory = inst.Profile, inst.Image, inst.VCPUs, inst.Memory
	if inst.Volumes != nil {
		p.Volumes, p.NICs = inst.Volumes, inst.NICs
	}
	if err != nil {
		return p, note(&p, err)
	}
	node, all, err := in.placer.Explain(ctx, demand)
	p.Node, p.Placement = node, all
	goesTo(&spec, node)
	raw, encodeErr := json.Marshal(spec)
	if encodeErr != nil {
		return p, fmt.Errorf("encode the migration of %s: %w", inst.Name, encodeErr)
	}
	p.Stages = in.stages(&seedbed.Job{Kind: seedbed.JobMigrate, Spec: raw})
	return p, note(&p, unplaced(ctx, err))
}

// Rebalance suggests which instances to take to other nodes, by seedbed.BalanceMemory or BalanceVCPUs, at most that many. It leaves out
// those that cannot leave their node, and those that are away from their home, which go back there. It writes nothing.
func (in *Intake) Rebalance(ctx context.Context, by string, most int) (r seedbed.Rebalancing, err error) {
	all, err := in.store.Instances(ctx)
	if err != nil {
		return r, err
	}
	var instances []seedbed.Instance
	var demands []placement.Demand
	for _, i := range all {
		if i.Home != "" || i.Target != "" || i.State != seedbed.InstanceRunning && i.State != seedbed.InstanceStopped {
			continue
		}
		params := map[string]any{"stay": true}
		if method := i.LeavesBy(false); method != "" {
			params["method"] = method
		}
		_, _, demand, err := in.migrating(ctx, seedbed.Request{Action: seedbed.DoMigrate, Project: i.Project, Name: i.Name, Params: params})
		if known := (*seedbed.Error)(nil); errors.As(err, &known) {
			continue
		}
		if err != nil {
			return r, err
		}
		instances, demands = append(instances, i), append(demands, demand)
	}
	moves, loads, err := in.placer.Rebalance(ctx, by, most, demands)
	r = seedbed.Rebalancing{Moves: []seedbed.RebalanceMove{}, Loads: loads}
	if loads == nil {
		r.Loads = []seedbed.NodeLoad{}
	}
	for _, m := range moves {
		i := instances[m.Demand]
		r.Moves = append(r.Moves, seedbed.RebalanceMove{Project: i.Project, Name: i.Name, From: i.Node, To: m.To, Method: i.LeavesBy(false),
			VCPUs: i.VCPUs, Memory: i.Memory})
	}
	return r, err
}
