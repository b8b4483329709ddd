package worker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"seedbed"
)

// holders are the nodes that have a pool, those that answer and this control
// host's first; one that has never said what it has may have it. shared tells
// whether each of them sees what the others do.
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
		case n.State(now) == seedbed.NodeAway:
			return 2
		case n.Name != f.cfg.Home:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b seedbed.Node) int { return rank(a) - rank(b) })
	return all, shared && !private // of those that disagree none is believed
}

// noHolder is the error of a pool that no node has.
func noHolder(pool string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "pool %q is on no node: see storage.pools of the nodes' configuration", pool)
}

// ReceiveUpload has a node take in a file: the one that the spec names or, without
// one, the first that has the pool. See Client.ReceiveUpload.
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
	up, err := f.Of(spec.Node).ReceiveUpload(ctx, spec, body)
	up.Node = spec.Node
	return up, err
}

// DropUpload removes such a file.
func (f *Fleet) DropUpload(ctx context.Context, up seedbed.Upload) error {
	return f.Of(up.Node).DropUpload(ctx, up.Pool, up.ID)
}

// Trash is what was removed and is still there: on that node or, without one, on
// all, and then of a pool that nodes share once; or an error, never a part of it.
func (f *Fleet) Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error) {
	nodes, err := f.chosen(node)
	if err != nil {
		return nil, err
	}
	answers, err := each(ctx, f, nodes, (*Client).Trash)
	if err != nil {
		return nil, alone(err, node)
	}
	all := []seedbed.TrashItem{}
	told := map[string]string{} // whose word is taken of a shared pool
	for i, n := range nodes {
		for _, item := range answers[i] {
			if info, _ := n.Pool(item.Pool); info.Shared {
				if told[item.Pool] = cmp.Or(told[item.Pool], n.Name); told[item.Pool] != n.Name {
					continue
				}
			} else {
				item.Node = n.Name
			}
			all = append(all, item)
		}
	}
	slices.SortStableFunc(all, func(a, b seedbed.TrashItem) int { return a.Removed.Compare(b.Removed) })
	return all, nil
}

// RestoreVolume makes what is in the trash of a pool a volume again: see Trash.
func (f *Fleet) RestoreVolume(ctx context.Context, pool, id string) (seedbed.VolumeInfo, error) {
	c, err := f.keeper(ctx, pool, func(t seedbed.TrashItem) bool { return t.ID == id })
	if err != nil {
		return seedbed.VolumeInfo{}, orAbsent(err, id, pool)
	}
	return c.RestoreVolume(ctx, pool, id)
}

// DiscardVolume puts a restored volume back into the trash: see Client.DiscardVolume.
func (f *Fleet) DiscardVolume(ctx context.Context, pool, name string) (*seedbed.TrashItem, error) {
	c, err := f.keeper(ctx, pool, func(t seedbed.TrashItem) bool { return t.State == seedbed.Restored && t.Name == name })
	if errors.Is(err, errNowhere) { // the worker of any node says better why not
		all, _ := f.holders(pool)
		c, err = f.Of(all[0].Name), nil
	}
	if err != nil {
		return nil, err
	}
	return c.DiscardVolume(ctx, pool, name)
}

// PurgeVolume removes an item of the trash for good: see Client.PurgeVolume.
func (f *Fleet) PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error {
	node := item.Node
	if node == "" {
		all, _ := f.holders(item.Pool)
		if len(all) == 0 {
			return noHolder(item.Pool)
		}
		node = all[0].Name
	}
	return f.Of(node).PurgeVolume(ctx, item.Pool, item.ID, early)
}

// errNowhere: every node that has the pool was asked.
var errNowhere = errors.New("on no node")

func orAbsent(err error, id, pool string) error {
	if errors.Is(err, errNowhere) {
		return seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, pool)
	}
	return err
}

// keeper is the worker of a node whose trash has an item of the pool: with the only
// node, with a shared pool and with an item on a node that answers, others need not
// answer. errNowhere when it is on none.
func (f *Fleet) keeper(ctx context.Context, pool string, is func(seedbed.TrashItem) bool) (*Client, error) {
	all, shared := f.holders(pool)
	if len(all) == 0 {
		return nil, noHolder(pool)
	}
	if shared || len(all) == 1 {
		return f.Of(all[0].Name), nil
	}
	var away error
	for _, n := range all {
		items, err := f.Of(n.Name).Trash(ctx)
		switch {
		case err != nil:
			away = errors.Join(away, onNode(n.Name, err))
		case slices.ContainsFunc(items, func(t seedbed.TrashItem) bool { return t.Pool == pool && is(t) }):
			return f.Of(n.Name), nil
		}
	}
	return nil, cmp.Or(away, errNowhere)
}
