package rest

import (
	"context"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// readTrash returns the removed volumes of the node that the query names, or of all.
func (r *router) readTrash(ctx context.Context, c *fiber.Ctx) ([]wire.TrashItem, error) {
	node, err := server.NodeQuery(c)
	if err != nil {
		return nil, err
	}
	items, err := r.Trash.Trash(ctx, node)
	if err != nil {
		return nil, err
	}
	var ids []seedbed.InstanceID
	for _, i := range items {
		ids = append(ids, i.Instance)
	}
	names, err := r.Store.InstanceNames(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make([]wire.TrashItem, len(items))
	for n, i := range items {
		all[n] = wire.TrashItem{TrashItem: i, InstanceName: names[i.Instance]}
	}
	return all, nil
}

// binned reads the pool and the ID of a trash item from the path, and the node from the query.
func binned(c *fiber.Ctx) (node, pool, id string, err error) {
	if pool, err = pathName(c, "pool", "pool"); err == nil {
		id, err = pathName(c, "trash item", "id")
	}
	if err == nil {
		node, err = server.NodeQuery(c)
	}
	return node, pool, id, err
}

// pathName reads a name from the path.
func pathName(c *fiber.Ctx, kind, key string) (string, error) {
	n := string([]byte(c.Params(key)))
	return n, seedbed.CheckName(kind, n)
}

func (r *router) restoreVolume(ctx context.Context, c *fiber.Ctx) (any, error) {
	node, pool, id, err := binned(c)
	if err != nil {
		return nil, err
	}
	v, err := r.Trash.RestoreVolume(ctx, node, pool, id)
	if err != nil {
		return nil, err
	}
	r.Log.Info("volume restored from the trash", "pool", pool, "volume", v.Name, "id", id, "instance", v.Instance)
	return v, nil
}

func (r *router) purgeVolume(ctx context.Context, c *fiber.Ctx) error {
	node, pool, id, err := binned(c)
	if err != nil {
		return err
	}
	items, err := r.Trash.Trash(ctx, node)
	if err != nil {
		return err
	}
	i, err := onlyItem(items, pool, id)
	if err != nil {
		return err
	}
	if err := r.Trash.PurgeVolume(ctx, i, true); err != nil {
		return err
	}
	r.Log.Info("volume purged from the trash", "pool", pool, "volume", i.Name, "id", id, "instance", i.Instance, "node", i.Node)
	c.Status(fiber.StatusNoContent)
	return nil
}

// onlyItem returns the item with that ID in the trash of a pool. It returns ErrConflict if several
// nodes have one.
func onlyItem(items []seedbed.TrashItem, pool, id string) (seedbed.TrashItem, error) {
	var found []seedbed.TrashItem
	var on []string
	for _, i := range items {
		if i.Pool == pool && i.ID == id {
			found, on = append(found, i), append(on, i.Node)
		}
	}
	switch len(found) {
	case 0:
		return seedbed.TrashItem{}, seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, pool)
	case 1:
		return found[0], nil
	}
	slices.Sort(on)
	return seedbed.TrashItem{}, seedbed.Errorf(seedbed.ErrConflict,
		"%q in the trash of pool %s is on %s: choose one (--node NAME, ?node=NAME)", id, pool, strings.Join(on, " and "))
}

// discardVolume puts a restored volume back into the trash, unless it belongs to an instance.
func (r *router) discardVolume(ctx context.Context, c *fiber.Ctx) error {
	var req wire.DiscardRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if err := seedbed.CheckName("pool", req.Pool); err != nil {
		return err
	}
	if err := seedbed.CheckName("volume", req.Name); err != nil {
		return err
	}
	node, err := server.NodeQuery(c)
	if err != nil {
		return err
	}
	if err := r.unowned(ctx, req); err != nil {
		return err
	}
	item, err := r.Trash.DiscardVolume(ctx, node, req.Pool, req.Name)
	if err != nil {
		return err
	}
	r.Log.Info("restored volume discarded", "pool", req.Pool, "volume", req.Name, "kept", item != nil)
	if item == nil {
		c.Status(fiber.StatusNoContent)
		return nil
	}
	return server.Reply(c, fiber.StatusOK, wire.TrashItem{TrashItem: *item})
}

// unowned returns ErrInUse for a volume that is recorded as an instance's.
func (r *router) unowned(ctx context.Context, req wire.DiscardRequest) error {
	all, err := r.Store.ListInstances(ctx, seedbed.InstanceQuery{Scope: seedbed.AllProjects()})
	if err != nil {
		return err
	}
	for _, i := range all {
		for _, v := range i.Volumes {
			if v.Pool == req.Pool && v.Name == req.Name {
				return seedbed.Errorf(seedbed.ErrInUse, "volume %s of pool %s belongs to instance %s, and is removed with it",
					v.Name, v.Pool, i.FullName())
			}
		}
	}
	return nil
}

// binTimeout is for calls that may delete much.
const binTimeout = 110 * time.Second
