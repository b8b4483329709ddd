package provision

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"seedbed"
)

// holder is the node on which an image of the pool is made: the one that is asked
// for, or this host if it has the pool, or the first that has it. What is asked
// for and cannot be gives seedbed.ErrInvalid.
func (p *placer) holder(ctx context.Context, pool, asked string) (string, error) {
	if err := p.refresh(ctx, asked); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := demand{node: asked, pools: []string{pool}}
	all := p.picture.weigh(w, PlacementConfig{}, p.now())
	// A cordoned node may be given images.
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.refused != "" && !c.passing })
	if len(all) == 0 {
		return "", p.nobody(w, pool)
	}
	if slices.ContainsFunc(all, func(c candidate) bool { return c.node.Name == p.own }) {
		return p.own, nil
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(before(!a.away, !b.away), strings.Compare(a.node.Name, b.node.Name))
	})
	return all[0].node.Name, nil
}

// knows tells whether a node has reported the pool.
func (p *placer) knows(ctx context.Context, pool string) (bool, error) {
	if err := p.refresh(ctx, ""); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.picture.nodes, func(n seedbed.Node) bool {
		_, has := n.Pool(pool)
		return has
	}), nil
}

// nobody is the refusal of a pool that no node has, or not the one that is asked for.
func (p *placer) nobody(w demand, pool string) error {
	if w.node != "" {
		return none(w, p.picture.weigh(w, PlacementConfig{}, p.now()))
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "no node has the pool %q (seedbed node list)", clip(pool))
}

// keeper is the node whose worker reaches an image.
func (p *placer) keeper(ctx context.Context, image seedbed.Image) (string, error) {
	if err := p.refresh(ctx, ""); err != nil {
		return "", err
	}
	p.mu.Lock()
	shared := p.picture.shared(image.Pool)
	p.mu.Unlock()
	if image.Node != "" && !shared {
		return image.Node, nil
	}
	return p.holder(ctx, image.Pool, "")
}
