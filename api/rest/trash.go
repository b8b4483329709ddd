package rest

import (
	"cmp"
	"context"
	"fmt"
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
	all, err := r.trashFor(ctx, c)
	for i := range all {
		all[i].TrashItem = told(ctx, all[i].TrashItem)
	}
	return all, err
}

// trashFor returns the removed volumes that the caller sees, of the node that the query names or of all,
// each with its project: that of the instance, as far as its jobs are known, or that in the tag.
func (r *router) trashFor(ctx context.Context, c *fiber.Ctx) (all []wire.TrashItem, err error) {
	in, err := server.SiteScopeOf(c)
	if err != nil {
		return nil, err
	}
	node, err := server.NodeQuery(c)
	if err != nil {
		return nil, err
	}
	if err := server.ChoosesNode(c, node); err != nil {
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
	for _, i := range items {
		name := names[i.Instance]
		if name != "" {
			i.Project = seedbed.ParseInstanceName(name).Project
		}
		if in.Sees(cmp.Or(i.Project, seedbed.DefaultProject)) {
			all = append(all, wire.TrashItem{TrashItem: i, InstanceName: name})
		}
	}
	return all, nil
}

// told returns an item of the trash as the caller may read it: a tenant does not learn the node.
func told(ctx context.Context, i seedbed.TrashItem) seedbed.TrashItem {
	if seedbed.IsTenant(ctx) {
		i.Node = ""
	}
	return i
}

// binned returns the item that the path names, among those that the caller sees.
func (r *router) binned(ctx context.Context, c *fiber.Ctx) (none seedbed.TrashItem, err error) {
	pool, err := pathName(c, "pool", "pool")
	if err != nil {
		return none, err
	}
	id, err := pathName(c, "trash item", "id")
	if err != nil {
		return none, err
	}
	items, err := r.trashFor(ctx, c)
	if err != nil {
		return none, err
	}
	return onlyItem(ctx, items, pool, id)
}

// pathName reads a name from the path.
func pathName(c *fiber.Ctx, kind, key string) (string, error) {
	n := string([]byte(c.Params(key)))
	return n, seedbed.CheckName(kind, n)
}

func (r *router) restoreVolume(ctx context.Context, c *fiber.Ctx) (any, error) {
	i, err := r.binned(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := r.roomToRestore(ctx, c, i, false); err != nil {
		return nil, err
	}
	v, err := r.Trash.RestoreVolume(ctx, i.Node, i.Pool, i.ID)
	if err != nil {
		return nil, err
	}
	// Others may have been restored since: all of them see each other now, and those that are too many go back.
	if full := r.roomToRestore(ctx, c, i, true); full != nil {
		if _, err := r.Trash.DiscardVolume(ctx, i.Node, i.Pool, v.Name); err != nil {
			return nil, fmt.Errorf("put volume %s of pool %s back into the trash: %w", v.Name, i.Pool, err)
		}
		return nil, full
	}
	r.Log.Info("volume restored from the trash", "pool", i.Pool, "volume", v.Name, "id", i.ID, "instance", v.Instance)
	v.Project = i.Project
	if seedbed.IsTenant(ctx) { // the path is the node's
		v.Disk = seedbed.Disk{}
	}
	return wire.StoredVolume{VolumeInfo: v, Disk: v.Disk}, nil
}

func (r *router) purgeVolume(ctx context.Context, c *fiber.Ctx) error {
	i, err := r.binned(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Trash.PurgeVolume(ctx, i, true); err != nil {
		return err
	}
	r.Log.Info("volume purged from the trash", "pool", i.Pool, "volume", i.Name, "id", i.ID, "instance", i.Instance, "node", i.Node)
	c.Status(fiber.StatusNoContent)
	return nil
}

// onlyItem returns the item with that ID in the trash of a pool. It returns ErrConflict if several
// nodes have one.
func onlyItem(ctx context.Context, items []wire.TrashItem, pool, id string) (seedbed.TrashItem, error) {
	var found []seedbed.TrashItem
	var on []string
	for _, i := range items {
		if i.Pool == pool && i.ID == id {
			found, on = append(found, i.TrashItem), append(on, i.Node)
		}
	}
	switch len(found) {
	case 0:
		return seedbed.TrashItem{}, seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, pool)
	case 1:
		return found[0], nil
	}
	if seedbed.IsTenant(ctx) {
		return seedbed.TrashItem{}, seedbed.Errorf(seedbed.ErrConflict, "%q is in the trash of pool %s several times", id, pool)
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
	if node, err = r.restoredOn(ctx, c, node, req); err != nil {
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
	return server.Reply(c, fiber.StatusOK, wire.TrashItem{TrashItem: told(ctx, *item)})
}

// restoredOn returns the node of the restored volume that a request names, as far as the caller must say
// it. To a caller who does not see the whole trash, a volume that it does not see does not exist.
func (r *router) restoredOn(ctx context.Context, c *fiber.Ctx, node string, req wire.DiscardRequest) (string, error) {
	in, err := server.SiteScopeOf(c)
	if _, one := in.One(); err != nil || !one {
		return node, err
	}
	items, err := r.trashFor(ctx, c)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(items, func(i wire.TrashItem) bool {
		return i.State == seedbed.Restored && i.Pool == req.Pool && i.Name == req.Name
	})
	if at < 0 {
		return "", seedbed.Errorf(seedbed.ErrNotFound, "pool %s has no restored volume %q", req.Pool, req.Name)
	}
	return items[at].Node, nil
}

// roomToRestore refuses a tenant whose restored volumes, with one that is to be restored or is so already, need
// more than the project's quota leaves. Nothing else bounds them: they stay until they are discarded, and no
// instance has them.
func (r *router) roomToRestore(ctx context.Context, c *fiber.Ctx, i seedbed.TrashItem, already bool) error {
	if !seedbed.IsTenant(ctx) {
		return nil
	}
	p, err := r.Store.Project(ctx, i.Project)
	if err != nil {
		return err
	}
	used, err := r.Store.ProjectUse(ctx, i.Project)
	if err != nil {
		return err
	}
	items, err := r.trashFor(ctx, c)
	if err != nil {
		return err
	}
	for _, have := range items {
		if have.State == seedbed.Restored {
			used.AddDisk(have.Pool, have.Size)
		}
	}
	if !already {
		used.AddDisk(i.Pool, i.Size)
	}
	if most := p.Quota.Disk; most > 0 && used.Disk > most {
		return seedbed.Errorf(seedbed.ErrForbidden, "the disks of project %s and its restored volumes would have %s, and its quota is %s",
			p.Name, used.Disk, most)
	}
	if most := p.Quota.DiskIn[i.Pool]; most > 0 && used.DiskIn[i.Pool] > most {
		return seedbed.Errorf(seedbed.ErrForbidden,
			"the disks of project %s and its restored volumes would have %s in pool %s, and its quota is %s there",
			p.Name, used.DiskIn[i.Pool], i.Pool, most)
	}
	return nil
}

// unowned returns ErrInUse for a volume that is recorded as an instance's.
func (r *router) unowned(ctx context.Context, req wire.DiscardRequest) error {
	all, err := r.Store.ListInstances(ctx, seedbed.InstanceQuery{Scope: seedbed.AllProjects()})
	if err != nil {
		return err
	}
	own, err := r.Store.ProjectVolumes(ctx, seedbed.AllProjects())
	if err != nil {
		return err
	}
	for _, v := range own {
		if v.ID != "" && v.Pool == req.Pool && v.Volume == req.Name {
			return seedbed.Errorf(seedbed.ErrInUse, "volume %s of pool %s is volume %s of project %s: remove that (seedbed volume remove)",
				v.Volume, v.Pool, v.Name, v.Project)
		}
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
