package pvc

import (
	"cmp"
	"context"
	"regexp"
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

func (r *router) volumeRoutes(p string, get, put routing) {
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
	put(seedbed.ActionDiskManage, p+"/:pool/:volume", r.starting(r.changeVolume))
}

// changeVolume makes a volume of the caller's project larger, or a disk of one of its instances, and waits for that. Their names in a pool
// do not change.
func (r *router) changeVolume(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	text, renames := f.text("new_size"), f.has("new_name")
	f.flag("force")
	switch {
	case f.err != nil:
		return f.err
	case f.has("new_size") && renames:
		return refused(fiber.StatusBadRequest, "Can only perform one modification at once")
	case renames:
		return refused(fiber.StatusBadRequest, "ERROR: A volume keeps its name in its pool: \"seedbed volume rename\" changes the other one.")
	case text == "":
		return refused(fiber.StatusBadRequest, "At least one modification must be specified")
	}
	size, err := sizeOf(text)
	if err != nil {
		return err
	}
	pool, name := server.Param(c, "pool"), server.Param(c, "volume")
	all, err := r.Store.ProjectVolumes(ctx, seedbed.InProject(server.CallerOf(c).Project))
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(v seedbed.ProjectVolume) bool { return v.Pool == pool && v.Volume == name })
	if at < 0 {
		return refused(fiber.StatusBadRequest, "ERROR: No volume with name '%s' is present in pool '%s'.", seedbed.Clip(name), seedbed.Clip(pool))
	}
	receipt, err := r.enlarge(ctx, c, all[at], size, o)
	if err != nil {
		return err
	}
	ended, err := r.awaitEnd(ctx, receipt.Job)
	if err != nil {
		return err
	}
	if !ended {
		return say(c, "Resizing RBD volume '%s' to size '%s' in pool '%s'. Task %s continues.", name, humanSize(size), pool, receipt.Job.Short())
	}
	return say(c, "Resized RBD volume '%s' to size '%s' in pool '%s'.", name, humanSize(size), pool)
}

// enlarge starts the job that makes a volume larger, or the disk of an instance.
func (r *router) enlarge(
	ctx context.Context, c *fiber.Ctx, v seedbed.ProjectVolume, size seedbed.Bytes, o seedbed.JobOptions,
) (seedbed.Receipt, error) {
	if v.ID != "" {
		return r.Intake.Submit(ctx, seedbed.Request{Action: seedbed.DoVolumeResize, Project: v.Project, Name: v.Name, JobOptions: o,
			Volume: seedbed.VolumeOrder{Resize: seedbed.VolumeResize{Size: size}}}, nil)
	}
	if err := server.CallerOf(c).Need(seedbed.ActionInstanceResize); err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.Resize(ctx, seedbed.Named(v.Project, v.Holder), seedbed.ResizeRequest{Disk: strconv.Itoa(v.Index), Size: size}, o)
}

// sizeForm matches a size as PVC's client gives it: a number of bytes, or with a unit.
var sizeForm = regexp.MustCompile(`^([0-9]{1,18})([BKMGT]?)(iB|B)?$`)

// sizeOf parses a size of PVC's form.
func sizeOf(text string) (seedbed.Bytes, error) {
	if m := sizeForm.FindStringSubmatch(text); m != nil {
		if size, err := seedbed.ParseBytes(m[1] + m[2]); err == nil {
			return size, nil
		}
	}
	return 0, refused(fiber.StatusBadRequest, "ERROR: Requested volume size '%s' does not have a valid SI unit", seedbed.Clip(text))
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
