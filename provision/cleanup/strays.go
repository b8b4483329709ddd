package cleanup

import (
	"slices"

	"seedbed"
)

// known decides whether something that carries Seedbed's tag belongs to anything in the database.
type known struct {
	instances map[seedbed.InstanceID]bool
	// owners are the IDs in the tags of the volumes of projects.
	owners map[seedbed.InstanceID]bool
	images map[string]bool
}

func knownOf(instances []seedbed.Instance, owners []seedbed.InstanceID, images []seedbed.Image) known {
	k := known{map[seedbed.InstanceID]bool{}, map[seedbed.InstanceID]bool{}, map[string]bool{}}
	for _, id := range owners {
		k.owners[id] = true
	}
	for _, i := range instances {
		k.instances[i.ID] = true
	}
	for _, i := range images {
		k.images[i.Pool+"/"+i.Name] = true
	}
	return k
}

// strays returns what an inventory has that belongs to nothing in the database. Strays are only
// reported, never deleted, because a lost database does not mean that the instances are lost. A
// volume restored from the trash belongs to no instance on purpose.
func (k known) strays(inv seedbed.Inventory, node string) (all []seedbed.Orphan) {
	for _, d := range inv.Domains {
		if !k.instances[d.ID] {
			all = append(all, seedbed.Orphan{Kind: seedbed.OrphanDomain, Node: node, Name: d.Name, Instance: d.ID, Project: d.Project})
		}
	}
	for _, v := range inv.Volumes {
		if !k.instances[v.Instance] && !k.owners[v.Instance] && !v.Restored {
			all = append(all, seedbed.Orphan{
				Kind: seedbed.OrphanVolume, Node: node, Pool: v.Pool, Name: v.Name, Instance: v.Instance, Project: v.Project,
			})
		}
	}
	for _, i := range inv.Images {
		if !k.images[i.Pool+"/"+i.Name] {
			all = append(all, seedbed.Orphan{Kind: seedbed.OrphanImage, Node: node, Pool: i.Pool, Name: i.Name, Job: i.Job, Project: i.Project})
		}
	}
	return all
}

// onceInPools removes strays that another node has already reported because it shares the pool.
func onceInPools(all []seedbed.Orphan) []seedbed.Orphan {
	seen := map[seedbed.Orphan]bool{}
	return slices.DeleteFunc(all, func(o seedbed.Orphan) bool {
		o.Node = ""
		twice := o.Pool != "" && seen[o]
		seen[o] = true
		return twice
	})
}
