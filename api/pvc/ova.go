package pvc

import (
	"cmp"
	"context"
	"errors"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// ovaRow is an OVA image as PVC shows it.
type ovaRow struct {
	ID      int64          `json:"id"`
	Name    string         `json:"name"`
	Volumes []ovaVolumeRow `json:"volumes"`
}

type ovaVolumeRow struct {
	Pool   string `json:"pool"`
	Name   string `json:"volume_name"`
	Format string `json:"volume_format"`
	DiskID string `json:"disk_id"`
	SizeGB int64  `json:"disk_size_gb"`
}

func ovaRowOf(o seedbed.OVA) ovaRow {
	return ovaRow{o.ID, o.Name, server.Each(o.Volumes, func(v seedbed.OVAVolume) ovaVolumeRow {
		return ovaVolumeRow{v.Pool, v.Image, v.Format, v.Disk, int64((v.Size + seedbed.GiB - 1) / seedbed.GiB)}
	})}
}

const noOVASize = "An ova_size value must be a positive integer."

func (r *router) ovas() collection[seedbed.OVA] {
	return collection[seedbed.OVA]{
		r: r, kind: seedbed.PublishedOVA, list: r.Store.OVAs, none: "No OVAs found.",
		names: func(o *seedbed.OVA) []*string {
			names := []*string{&o.Name}
			for n := range o.Volumes {
				names = append(names, &o.Volumes[n].Image)
			}
			return names
		},
		numbers: func(o *seedbed.OVA) []*int64 { return []*int64{&o.ID} },
		to:      func(o *seedbed.OVA) *seedbed.Publication { return o.Published },
	}
}

// ovaRoutes adds the routes of OVA images. Uploads and removals wait for their jobs, because PVC's
// client waits for the answer.
func (r *router) ovaRoutes(t *table, p string, get routing) {
	get(seedbed.ActionOVARead, p, listed(r.ovas(), ovaRowOf))
	get(seedbed.ActionOVARead, p+"/:name", element(r.ovas(), ovaRowOf))
	upload := func(name func(*fiber.Ctx, *fields) string) handler {
		return r.starting(func(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
			return r.uploadOVA(ctx, c, f, name(c, f), o)
		})
	}
	t.add(fiber.MethodPost, seedbed.ActionOVAManage, p, server.UploadTimeout, queried,
		upload(func(_ *fiber.Ctx, f *fields) string { return f.must("name", nameMissing) }))
	t.add(fiber.MethodPost, seedbed.ActionOVAManage, p+"/:name", server.UploadTimeout, queried,
		upload(func(c *fiber.Ctx, _ *fields) string { return server.Param(c, "name") }))
	t.add(fiber.MethodDelete, seedbed.ActionOVAManage, p+"/:name", server.UploadTimeout, queried, r.starting(r.removeOVA))
}

// uploadOVA receives an OVA as PVC's client sends it, and answers once it is imported.
func (r *router) uploadOVA(ctx context.Context, c *fiber.Ctx, f *fields, name string, o seedbed.JobOptions) error {
	pool := f.must("pool", "A storage pool must be specified.")
	size := 0
	if f.must("ova_size", "An OVA size must be specified."); f.err == nil {
		size = f.number("ova_size", noOVASize)
	}
	if f.err == nil && size <= 0 {
		f.refuse(cmp.Or(seedbed.CheckOVAName(name), seedbed.CheckName("pool", pool), refused(fiber.StatusBadRequest, noOVASize)))
	}
	f.note(c)
	qualified, wrong := r.ovas().called(c, name)
	if f.err == nil && seedbed.CheckOVAName(name) == nil {
		f.refuse(wrong)
	}
	receipt, err := r.TakeOVA(ctx, c, cmp.Or(qualified, name), seedbed.UploadSpec{Pool: pool, Size: seedbed.Bytes(size)}, o, f.err)
	if err != nil {
		return err
	}
	if err := r.awaited(ctx, receipt); err != nil {
		return err
	}
	return say(c, "Imported OVA image '%s'.", name)
}

func (r *router) removeOVA(ctx context.Context, c *fiber.Ctx, _ *fields, o seedbed.JobOptions) error {
	name := server.Param(c, "name")
	qualified, err := r.ovas().owned(ctx, c)
	var receipt seedbed.Receipt
	if err == nil {
		receipt, err = r.OVAs.RemoveOVA(ctx, qualified, o)
	}
	switch {
	case errors.Is(err, seedbed.ErrNotFound), errors.Is(err, seedbed.ErrInvalid):
		return refused(fiber.StatusBadRequest, `The OVA image "%s" does not exist.`, name)
	case errors.Is(err, seedbed.ErrInUse):
		return refused(fiber.StatusBadRequest, "Failed to delete entry %q: %s", name, server.Sentence(err.Error()))
	case err != nil:
		return err
	}
	if err := r.awaited(ctx, receipt); err != nil {
		return err
	}
	return say(c, `Removed OVA image "%s".`, name)
}

// lookAgain is how often awaited reads a job that another process may run.
const lookAgain = time.Second

// awaited waits for the end of a job. It returns an error unless the job succeeded.
func (r *router) awaited(ctx context.Context, receipt seedbed.Receipt) error {
	for {
		hint := r.Store.Hint()
		job, err := r.Store.Job(ctx, receipt.Job)
		if err != nil {
			return err
		}
		switch {
		case job.State == seedbed.JobSucceeded:
			return nil
		case job.State.Terminal():
			return refused(fiber.StatusBadRequest, "%s", server.Sentence(cmp.Or(job.Error, "the job is "+string(job.State))))
		}
		select {
		case <-hint:
		case <-time.After(lookAgain):
		case <-r.Stops():
			return seedbed.Errorf(seedbed.ErrUnavailable, "seedbedd is stopping; job %s continues when it runs again", receipt.Job.Short())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
