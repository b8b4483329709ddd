package placement

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"seedbed"
)

// Holder returns the node on which an image of the pool is to be made: the node asked, or this host
// if it has the pool, or the first node that has it. The node must have the pools also as well. It
// returns seedbed.ErrInvalid if the node asked for cannot do it.
func (p *Placer) Holder(ctx context.Context, pool, asked string, also ...string) (string, error) {
	if err := p.refresh(ctx, asked); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := Demand{Node: asked, Pools: []string{pool}}
	for _, other := range also {
		if other != "" && other != pool {
			w.Pools = append(w.Pools, other)
		}
	}
	all := p.snapshot.weigh(w, Config{}, p.now())
	// A cordoned node may get images.
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.refused != "" && !c.passing })
	if len(all) == 0 {
		return "", p.nobody(w, pool)
	}
	if slices.ContainsFunc(all, func(c candidate) bool { return c.node.Name == p.localNode }) {
		return p.localNode, nil
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(before(!a.away, !b.away), strings.Compare(a.node.Name, b.node.Name))
	})
	return all[0].node.Name, nil
}

// Knows reports whether a node has reported the pool.
func (p *Placer) Knows(ctx context.Context, pool string) (bool, error) {
	if err := p.refresh(ctx, ""); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.snapshot.nodes, func(n seedbed.Node) bool {
		_, has := n.Pool(pool)
		return has
	}), nil
}

// Room returns what a node has reported of a pool, or false.
func (p *Placer) Room(ctx context.Context, node, pool string) (seedbed.PoolInfo, bool, error) {
	if err := p.refresh(ctx, node); err != nil {
		return seedbed.PoolInfo{}, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.snapshot.nodes, func(n seedbed.Node) bool { return n.Name == node })
	if at < 0 {
		return seedbed.PoolInfo{}, false, nil
	}
	info, known := p.snapshot.nodes[at].Pool(pool)
	return info, known, nil
}

// Promised returns what the volumes of a pool may grow to, on a node or, if its nodes share the
// pool, on all.
func (p *Placer) Promised(ctx context.Context, node, pool string) (all seedbed.Bytes, err error) {
	if err := p.refresh(ctx, node); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	shared := p.snapshot.shared(pool)
	for at, size := range p.snapshot.pools {
		if at.pool == pool && (shared || at.node == node) {
			all += size
		}
	}
	return all, nil
}

// nobody returns the refusal for a pool that no node has, or that the requested node does not have.
func (p *Placer) nobody(w Demand, pool string) error {
	if w.Node != "" {
		return none(w, p.snapshot.weigh(w, Config{}, p.now()))
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "no node has the pool %q (seedbed node list)", seedbed.Clip(pool))
}

// Keeper returns the node whose worker has access to an image.
func (p *Placer) Keeper(ctx context.Context, image seedbed.Image) (string, error) {
	if err := p.refresh(ctx, ""); err != nil {
		return "", err
	}
	p.mu.Lock()
	shared := p.snapshot.shared(image.Pool)
	p.mu.Unlock()
	if image.Node != "" && !shared {
		return image.Node, nil
	}
	return p.Holder(ctx, image.Pool, "")
}
