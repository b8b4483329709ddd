package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// Trash returns removed volumes that can still be restored: those on that node or, without one, on
// all nodes, with those of a shared pool only once; or an error, never a part of them.
func (f *Fleet) Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error) {
	nodes, err := f.chosen(node)
	if err != nil {
		return nil, err
	}
	answers, err := each(ctx, f, nodes, list(effects.Trash))
	if err != nil {
		return nil, alone(err, node)
	}
	all := []seedbed.TrashItem{}
	told := map[string]string{} // the node whose list of a shared pool counts
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

// RestoreVolume makes an item in the trash of a pool a volume again, on that node or, without one,
// on the node that has the item; ErrConflict if several do. See Trash.
func (f *Fleet) RestoreVolume(ctx context.Context, node, pool, id string) (seedbed.VolumeInfo, error) {
	node, err := f.keeper(ctx, node, pool, fmt.Sprintf("%q in the trash", id), func(t seedbed.TrashItem) bool { return t.ID == id })
	if errors.Is(err, errNowhere) {
		err = seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, pool)
	}
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return effects.RestoreVolume.Ask(ctx, f.Of(node), effects.TrashRef{Pool: pool, ID: id})
}

// DiscardVolume puts a restored volume back into the trash. It chooses the node like RestoreVolume:
// see effects.DiscardVolume.
func (f *Fleet) DiscardVolume(ctx context.Context, node, pool, name string) (*seedbed.TrashItem, error) {
	node, err := f.keeper(ctx, node, pool, fmt.Sprintf("restored volume %q", name),
		func(t seedbed.TrashItem) bool { return t.State == seedbed.Restored && t.Name == name })
	if errors.Is(err, errNowhere) { // the worker of any node gives a better reason
		all, _ := f.holders(pool)
		node, err = all[0].Name, nil
	}
	if err != nil {
		return nil, err
	}
	item, err := effects.DiscardVolume.Ask(ctx, f.Of(node), effects.ImageRef{Pool: pool, Name: name})
	if n, _ := f.named(node); item != nil {
		if info, _ := n.Pool(pool); !info.Shared {
			item.Node = node
		}
	}
	return item, err
}

// PurgeVolume removes an item of the trash for good: see effects.PurgeVolume.
func (f *Fleet) PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error {
	node := item.Node
	if node == "" {
		all, _ := f.holders(item.Pool)
		if len(all) == 0 {
			return noHolder(item.Pool)
		}
		node = all[0].Name
	}
	_, err := effects.PurgeVolume.Ask(ctx, f.Of(node), effects.TrashRef{Pool: item.Pool, ID: item.ID, Early: early})
	return err
}

// errNowhere: every node that has the pool answered, and none has the item.
var errNowhere = errors.New("on no node")

// keeper returns node or, if that is empty, the node whose trash has the item, which what names. If
// there is only one node, if the pool is shared, or if a node that answers has the item, the others
// need not answer. Errors: ErrConflict if several nodes have such an item, errNowhere if none has.
func (f *Fleet) keeper(ctx context.Context, node, pool, what string, is func(seedbed.TrashItem) bool) (string, error) {
	if node != "" {
		_, err := f.named(node)
		return node, err
	}
	all, shared := f.holders(pool)
	if len(all) == 0 {
		return "", noHolder(pool)
	}
	if shared || len(all) == 1 {
		return all[0].Name, nil
	}
	now := time.Now()
	away := slices.IndexFunc(all, func(n seedbed.Node) bool { return n.Gone(now) })
	if away < 0 {
		away = len(all)
	}
	on, silent := f.keepers(ctx, all[:away], pool, is)
	if len(on) == 0 {
		others, err := f.keepers(ctx, all[away:], pool, is)
		on, silent = others, errors.Join(silent, err)
	}
	switch len(on) {
	case 0:
		return "", cmp.Or(silent, errNowhere)
	case 1:
		return on[0], nil
	}
	return "", seedbed.Errorf(seedbed.ErrConflict, "%s of pool %s is on %s: choose one (--node NAME, ?node=NAME)", what,
		pool, strings.Join(on, " and "))
}

// keepers returns the nodes whose trash has such an item, and why others did not answer.
func (f *Fleet) keepers(ctx context.Context, nodes []seedbed.Node, pool string, is func(seedbed.TrashItem) bool) (on []string,
	silent error) {
	type answer struct {
		items []seedbed.TrashItem
		err   error
	}
	answers, _ := each(ctx, f, nodes, func(ctx context.Context, w effects.Worker) (a answer, _ error) {
		a.items, a.err = effects.Trash.Ask(ctx, w, effects.None{})
		return a, nil
	})
	for i, n := range nodes {
		switch a := answers[i]; {
		case a.err != nil:
			silent = errors.Join(silent, onNode(n.Name, a.err))
		case slices.ContainsFunc(a.items, func(t seedbed.TrashItem) bool { return t.Pool == pool && is(t) }):
			on = append(on, n.Name)
		}
	}
	return on, silent
}
