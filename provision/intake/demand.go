package intake

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/provision/placement"
)

// demands returns what the instance needs of a node, and what a system template (nil for none) and
// a request (which may name a node) require. volumes are those of the instance; a scripted instance
// has none yet, so they are those of its storage template. An image in known is not read again.
func (in *Intake) demands(ctx context.Context, inst seedbed.Instance, system *seedbed.SystemTemplate, volumes []seedbed.Volume, node string,
	known ...seedbed.Image) (placement.Demand, error) {
	w := placement.Demand{Name: inst.Name, Node: node, VCPUs: inst.VCPUs, Memory: inst.Memory, Images: known}
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
