package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/placement"
)

// Compositions are the provisioner profiles, and the jobs by the start of their IDs.
type Compositions interface {
	// Composition is a profile with all that it names, as of one moment.
	Composition(ctx context.Context, profile string) (seedbed.Composition, error)
	JobByPrefix(ctx context.Context, prefix string) (seedbed.Job, error)
}

// Compose accepts a request for a machine of a provisioner profile. The first
// group of its job's ID is that of no other job: PVC's clients know it by that.
// Errors: seedbed.ErrNotFound for a profile that is not there, else as of Submit.
func (in *Intake) Compose(ctx context.Context, req seedbed.ComposeRequest) (seedbed.Receipt, error) {
	return in.compose(ctx, req, nil)
}

// composition is what a request for a machine of a provisioner profile comes to.
type composition struct {
	seedbed.Composition
	inst seedbed.Instance
	// compose makes its documents where they need its addresses; else nil.
	compose func(seedbed.Instance) (seedbed.Documents, error)
	// script is what its job carries its script out by; nil where it is skipped.
	script *seedbed.ScriptRun
	// demand is what it needs of a node, which is not chosen yet.
	demand placement.Demand
	// start tells whether it is started once it is defined.
	start bool
}

// spec is the input of the job that makes it.
func (c composition) spec(undefined bool) (json.RawMessage, error) {
	return json.Marshal(seedbed.ComposedSpec{
		Profile: c.Profile.Name, Revision: c.Profile.Revision, Start: c.start && !undefined, Scripted: c.script != nil, Undefined: undefined,
	})
}

// composition makes the instance that a request asks for, and writes nothing.
func (in *Intake) composition(ctx context.Context, req seedbed.ComposeRequest) (made composition, err error) {
	if err := cmp.Or(seedbed.CheckInstanceName(req.Name), checkArguments(req.Arguments)); err != nil {
		return made, err
	}
	c, err := in.store.Composition(ctx, req.Profile)
	if err != nil {
		return made, err
	}
	if req.Hold != nil {
		c.Profile.Hold = *req.Hold
	}
	if req.Protected != nil {
		c.Profile.Protected = *req.Protected
	}
	c, params, err := withParams(withOVA(c), req.Name, req.Params)
	if err != nil {
		return made, err
	}
	req.Start = req.Start && !c.Profile.Hold
	made.Composition, made.start = c, req.Start
	if made.inst, made.compose, err = in.composed(ctx, req, c, params); err != nil {
		return made, err
	}
	if made.script, err = in.scriptRun(ctx, req, c, params); err != nil {
		return made, err
	}
	made.demand, err = in.demands(ctx, made.inst, &c.System, made.inst.Volumes, req.Node)
	return made, err
}

func (in *Intake) compose(ctx context.Context, req seedbed.ComposeRequest, delivery *seedbed.Delivery) (receipt seedbed.Receipt, err error) {
	made, err := in.composition(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	seat, err := in.placer.Choose(ctx, made.demand)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	defer func() { seat.Settle(err == nil && !receipt.Duplicate) }()
	inst := made.inst
	inst.Node = seat.Node
	if made.script != nil {
		inst.Volumes, inst.Image = []seedbed.Volume{}, "" // the script makes them
	}
	spec, err := made.spec(req.Undefined)
	if err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the create of %s: %w", req.Name, err)
	}
	for draw := 1; ; draw++ {
		id, err := in.distinctJob(ctx)
		if err != nil {
			return seedbed.Receipt{}, err
		}
		receipt, err := in.acceptNew(ctx, seedbed.Acceptance{
			Job:      seedbed.Job{ID: id, Kind: seedbed.JobCreate, State: seedbed.JobQueued, Subject: inst.Name, Instance: inst.ID, Node: inst.Node, Spec: spec},
			Delivery: delivery,
			Instance: &inst,
			Compose:  made.compose,
			Script:   made.script,
		})
		if !errors.Is(err, seedbed.ErrExists) || draw == macDraws || made.Network.MAC != "" {
			return receipt, err
		}
		if _, nameErr := in.store.InstanceByName(ctx, req.Name); !errors.Is(nameErr, seedbed.ErrNotFound) {
			return receipt, err // the name is taken, not an address
		}
		for i := range inst.NICs {
			inst.NICs[i].MAC = seedbed.NewMAC()
		}
	}
}

// distinctJob is a new ID with a first group that no job's has.
func (in *Intake) distinctJob(ctx context.Context) (seedbed.JobID, error) {
	for {
		id := seedbed.NewJobID()
		_, err := in.store.JobByPrefix(ctx, id.Short())
		if errors.Is(err, seedbed.ErrNotFound) {
			return id, nil
		}
		if err != nil && !errors.Is(err, seedbed.ErrConflict) {
			return "", err
		}
	}
}

// composed is the instance that a composition makes, and what its documents are
// composed by where they need its addresses.
func (in *Intake) composed(ctx context.Context, req seedbed.ComposeRequest, c seedbed.Composition, params map[string]any) (inst seedbed.Instance, compose func(seedbed.Instance) (seedbed.Documents, error), err error) {
	ready, err := seedbed.ParseReady(string(cmp.Or(req.Ready, seedbed.ReadyStarted)))
	if err != nil {
		return inst, nil, err
	}
	nics, err := nics(c.Network, req.Name)
	if err != nil {
		return inst, nil, err
	}
	disks, err := in.volumes(ctx, c.Storage)
	if err != nil {
		return inst, nil, err
	}
	made, s, err := in.composedRecipe(c, ready)
	if err != nil {
		return inst, nil, err
	}
	s.rest = params
	profile := seedbed.Profile{Name: c.Profile.Name, Ready: ready}
	inst, compose, err = in.newInstance(req.Name, profile, s, made)
	if err != nil {
		return inst, nil, err
	}
	if inst.UserData == nil && compose == nil {
		inst.UserData = []byte{}
	}
	inst.NICs, inst.Volumes, inst.Held = nics, disks, !req.Start
	inst.Kind, inst.Follow, inst.Source, inst.Params = seedbed.KindProvisioner, c.Profile.Follow, composedSource(c), params
	inst.System, inst.Protected = seedbed.SystemOf(c.System), c.Profile.Protected
	for i := range inst.Volumes {
		inst.Volumes[i].Name = fmt.Sprintf("%s-%d", inst.ID, i)
	}
	if req.Undefined {
		nameDisks(&inst, c.Storage)
	}
	if len(disks) > 0 {
		inst.Image = disks[0].Image
	}
	return inst, compose, nil
}

// volumes are those of a storage template, still without names.
func (in *Intake) volumes(ctx context.Context, t seedbed.StorageTemplate) ([]seedbed.Volume, error) {
	made := []seedbed.Volume{}
	for i, d := range t.Disks {
		if err := in.poolKnown(ctx, d.Pool); errors.Is(err, seedbed.ErrNotFound) {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "pool %q is not present on the cluster: disk %s of the storage template %q is in it", d.Pool, d.Name, t.Name)
		} else if err != nil {
			return nil, err
		}
		v := seedbed.Volume{Pool: d.Pool, Index: i, Size: d.Size, Image: d.Source}
		if d.Source != "" {
			image, err := in.store.Image(ctx, d.Source)
			if errors.Is(err, seedbed.ErrNotFound) {
				return nil, seedbed.Errorf(seedbed.ErrInvalid, "the source volume %s/%s could not be found: want an image of that pool (seedbed image list)", d.Pool, d.Source)
			}
			if err != nil {
				return nil, err
			}
			v.Size = image.Size
		}
		made = append(made, v)
	}
	return made, nil
}
