package pvc

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// volumeRow is a volume or an image as PVC shows a volume.
type volumeRow struct {
	Name  string      `json:"name"`
	Pool  string      `json:"pool"`
	Stats volumeStats `json:"stats"`
}

// volumeStats holds those values of "rbd info" that Seedbed records.
type volumeStats struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	Size       string   `json:"size"`
	Objects    int64    `json:"objects"`
	Order      int      `json:"order"`
	ObjectSize int64    `json:"object_size"`
	Snapshots  int      `json:"snapshot_count"`
	Prefix     string   `json:"block_name_prefix"`
	Format     int      `json:"format"`
	Features   []string `json:"features"`
	OpFeatures []string `json:"op_features"`
	Flags      []string `json:"flags"`
	Created    string   `json:"create_timestamp"`
	Accessed   string   `json:"access_timestamp"`
	Modified   string   `json:"modify_timestamp"`
}

// objectOrder is RBD's default: objects of 4 MiB.
const objectOrder = 22

func volumeRowOf(pool, name string, size seedbed.Bytes, created time.Time) volumeRow {
	at := created.UTC().Format(time.ANSIC)
	return volumeRow{name, pool,
		volumeStats{Name: name, ID: name, Size: humanSize(size), Objects: (int64(size) + 1<<objectOrder - 1) >> objectOrder,
			Order: objectOrder, ObjectSize: 1 << objectOrder, Format: 2, Created: at, Accessed: at, Modified: at}}
}

// humanSize returns a size in PVC's form: in the smallest unit that needs at most four digits,
// rounded up.
func humanSize(b seedbed.Bytes) string {
	const units = "BKMGTP"
	n := int64(b)
	for _, u := range units {
		if n <= 9999 || u == 'P' {
			return strconv.FormatInt(n, 10) + string(u)
		}
		n = (n + 1023) / 1024
	}
	return ""
}

const noVolume = "Volume not found."

func (r *router) volumeReadRoutes(p string, get routing) {
	get(seedbed.ActionVolumeRead, p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		m, pool := f.match(), f.text("pool")
		if f.err != nil {
			return f.err
		}
		all, err := r.allVolumes(ctx, server.CallerOf(c).Project)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(v volumeRow) bool { return pool != "" && pool != v.Pool || !m.Matches(v.Name) })
		return rows(c, all, func(v volumeRow) volumeRow { return v }, noVolume)
	})
	get(seedbed.ActionVolumeRead, p+"/:pool/:volume", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		all, err := r.allVolumes(ctx, server.CallerOf(c).Project)
		if err != nil {
			return err
		}
		pool, name := server.Param(c, "pool"), server.Param(c, "volume")
		all = slices.DeleteFunc(all, func(v volumeRow) bool { return v.Pool != pool || v.Name != name })
		return rows(c, all, func(v volumeRow) volumeRow { return v }, noVolume)
	})
}

// allVolumes returns the instances' volumes and the images that a project uses, by pool and name.
func (r *router) allVolumes(ctx context.Context, project string) ([]volumeRow, error) {
	instances, err := r.Store.ListInstances(ctx, seedbed.InstanceQuery{Scope: seedbed.AllProjects()})
	if err != nil {
		return nil, err
	}
	images, err := r.Store.Images(ctx)
	if err != nil {
		return nil, err
	}
	var all []volumeRow
	for _, i := range instances {
		for _, v := range i.Volumes {
			all = append(all, volumeRowOf(v.Pool, v.Name, v.Size, i.Created))
		}
	}
	own, err := r.Store.ProjectVolumes(ctx, seedbed.AllProjects())
	if err != nil {
		return nil, err
	}
	for _, v := range own {
		if v.ID != "" {
			all = append(all, volumeRowOf(v.Pool, v.Volume, v.Size, v.Created))
		}
	}
	for _, i := range images {
		if !i.Published.Lets(project, i.Name) {
			continue
		}
		all = append(all, volumeRowOf(i.Pool, i.Name, i.Size, i.Created))
	}
	slices.SortFunc(all, func(a, b volumeRow) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}
