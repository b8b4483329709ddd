package fleet

import (
	"context"
	"io"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// holders returns the nodes that have a pool, those that answer and this control host's first. A
// node that has never reported may have it, too. shared reports whether all of them see the same
// pool.
func (f *Fleet) holders(pool string) (all []seedbed.Node, shared bool) {
	now, private := time.Now(), false
	for _, n := range f.Nodes() {
		info, has := n.Pool(pool)
		if has || n.Seen.IsZero() {
			all = append(all, n)
			shared, private = shared || info.Shared, private || has && !info.Shared
		}
	}
	rank := func(n seedbed.Node) int {
		switch {
		case n.Gone(now):
			return 2
		case n.Name != f.cfg.Home:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b seedbed.Node) int { return rank(a) - rank(b) })
	return all, shared && !private // if nodes disagree, the pool is not shared
}

// noHolder returns the error of a pool that no node has.
func noHolder(pool string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "pool %q is on no node: see storage.pools of the nodes' configuration", pool)
}

// ReceiveUpload has a node receive a file: the node that the spec names or, without one, the first
// that has the pool. See Client.ReceiveUpload.
func (f *Fleet) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error) {
	if spec.Node == "" {
		all, _ := f.holders(spec.Pool)
		if len(all) == 0 {
			return seedbed.Upload{}, noHolder(spec.Pool)
		}
		spec.Node = all[0].Name
	} else if _, err := f.named(spec.Node); err != nil {
		return seedbed.Upload{}, err
	}
	up, err := f.client(spec.Node).ReceiveUpload(ctx, spec, body)
	up.Node = spec.Node
	return up, err
}

// DropUpload removes such a file.
func (f *Fleet) DropUpload(ctx context.Context, up seedbed.Upload) error {
	_, err := effects.DropUpload.Ask(ctx, f.Of(up.Node), effects.UploadRef{Pool: up.Pool, ID: up.ID})
	return err
}
