package api

import (
	"cmp"
	"context"
	"errors"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// OVAs reads OVA images.
type OVAs interface {
	// OVAs returns the imported OVA images whose names match.
	OVAs(ctx context.Context, m seedbed.NameMatch) ([]seedbed.OVA, error)
}

// OVAIntake makes jobs that create and remove OVA images.
type OVAIntake interface {
	ImportOVA(ctx context.Context, name, script string, up seedbed.Upload) (seedbed.Receipt, error)
	RemoveOVA(ctx context.Context, name string) (seedbed.Receipt, error)
}

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
	return ovaRow{o.ID, o.Name, each(o.Volumes, func(v seedbed.OVAVolume) ovaVolumeRow {
		return ovaVolumeRow{v.Pool, v.Image, v.Format, v.Disk, int64((v.Size + seedbed.GiB - 1) / seedbed.GiB)}
	})}
}

const (
	noOVAs    = "No OVAs found."
	noOVASize = "An ova_size value must be a positive integer."
)

// ovaRoutes adds the routes of OVA images. Uploads and removals wait for their jobs, because PVC's
// client waits for the answer.
func (r *router) ovaRoutes(app *fiber.App, p string, get routing) {
	get(p, listed(r.Store.OVAs, ovaRowOf, noOVAs))
	get(p+"/:name", element(r.Store.OVAs, ovaRowOf, noOVAs))
	long := func(h pvcHandler) fiber.Handler {
		return r.within(uploadTimeout, func(ctx context.Context, c *fiber.Ctx) error {
			f, err := queried(c)
			if err != nil {
				return err
			}
			return h(ctx, c, f)
		})
	}
	app.Post(prefix+p, long(func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.uploadOVA(ctx, c, f, f.must("name", "A name must be specified."))
	}))
	app.Post(prefix+p+"/:name", long(func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.uploadOVA(ctx, c, f, param(c, "name"))
	}))
	app.Delete(prefix+p+"/:name", long(r.removeOVA))
}

func (r *router) uploadOVA(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	pool := f.must("pool", "A storage pool must be specified.")
	size := 0
	if f.must("ova_size", "An OVA size must be specified."); f.err == nil {
		size = f.number("ova_size", noOVASize)
	}
	f.note(c)
	body, bodyErr := r.incoming(ctx, c, maxFrame)
	if body != nil {
		defer body.Close()
	}
	script, err := "", f.err
	if err == nil {
		script, err = r.ovaPrecondition(ctx, name, pool, seedbed.Bytes(size))
	}
	var up seedbed.Upload
	if err = cmp.Or(err, bodyErr); err == nil {
		up, err = r.takeIn(ctx, c, body, seedbed.UploadSpec{Pool: pool, Size: seedbed.Bytes(size)})
		err = ovaRefusal(err)
	}
	if err != nil {
		if body != nil {
			body.Linger(uploadLinger)
		}
		return err
	}
	receipt, err := r.OVAs.ImportOVA(ctx, name, script, up)
	if err != nil {
		return r.unneeded(ctx, up, err)
	}
	if err := r.awaited(ctx, receipt); err != nil {
		return err
	}
	return say(c, "Imported OVA image '%s'.", name)
}

// ovaPrecondition returns the error that would prevent the import of an OVA, before the file is
// sent. It also returns the script of the OVA's profile.
func (r *router) ovaPrecondition(ctx context.Context, name, pool string, size seedbed.Bytes) (script string, err error) {
	if err := cmp.Or(seedbed.CheckOVAName(name), seedbed.CheckName("pool", pool)); err != nil {
		return "", err
	}
	if size <= 0 {
		return "", refused(fiber.StatusBadRequest, noOVASize)
	}
	if most := cmp.Or(r.MaxUpload, defaultMaxUpload); size > most {
		return "", refused(fiber.StatusRequestEntityTooLarge, "The OVA has %d bytes, and at most %s may be uploaded (storage.max_upload).", size, most)
	}
	m := seedbed.ExactName(name)
	for _, taken := range []func() (bool, string, error){
		func() (bool, string, error) {
			found, err := r.Store.OVAs(ctx, m)
			return len(found) > 0, `The OVA image "%s" already exists.`, err
		},
		func() (bool, string, error) {
			found, err := r.Store.SystemTemplates(ctx, m)
			return len(found) > 0, `The system template "%s" already exists.`, err
		},
		func() (bool, string, error) {
			_, err := r.Store.Profile(ctx, name)
			if errors.Is(err, seedbed.ErrNotFound) {
				return false, "", nil
			}
			return true, `The profile "%s" already exists.`, err
		},
	} {
		is, text, err := taken()
		if err != nil {
			return "", err
		}
		if is {
			return "", refused(fiber.StatusBadRequest, text, name)
		}
	}
	for _, script := range []string{"ova", "default_ova"} {
		found, err := r.Store.Scripts(ctx, seedbed.ExactName(script))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return script, nil
		}
	}
	return "", refused(fiber.StatusBadRequest, "Did not find an 'ova' or 'default_ova' provisioning script. Add one of that name first, which the profile of the OVA is to have: it may be empty, since the disks are cloned without it.")
}

// ovaRefusal returns PVC's form of an error of an OVA import.
func ovaRefusal(err error) error {
	if p, ok := errors.AsType[httpserve.Problem](err); ok && p.Status == fiber.StatusBadRequest {
		return refused(fiber.StatusBadRequest, "Failed to upload or write OVA file to temporary volume: %s.", p.Detail)
	}
	switch {
	case errors.Is(err, seedbed.ErrFull):
		return refused(fiber.StatusBadRequest, "The cluster does not have enough free space to store the OVA volume: %s.", err)
	case errors.Is(err, seedbed.ErrInvalid):
		return refused(fiber.StatusBadRequest, "The uploaded OVA file is not readable: %s.", err)
	}
	return err
}

func (r *router) removeOVA(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	name := param(c, "name")
	receipt, err := r.OVAs.RemoveOVA(ctx, name)
	switch {
	case errors.Is(err, seedbed.ErrNotFound), errors.Is(err, seedbed.ErrInvalid):
		return absent(fiber.StatusBadRequest, `The OVA image "%s" does not exist.`, name)
	case errors.Is(err, seedbed.ErrInUse):
		return refused(fiber.StatusBadRequest, "Failed to delete entry %q: %s", name, sentence(err.Error()))
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
			return refused(fiber.StatusBadRequest, "%s", sentence(cmp.Or(job.Error, "the job is "+string(job.State))))
		}
		select {
		case <-hint:
		case <-time.After(lookAgain):
		case <-r.stopping:
			return seedbed.Errorf(seedbed.ErrUnavailable, "seedbedd is stopping; the job %s goes on once it is there again", receipt.Job.Short())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
