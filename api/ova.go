package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/api/wire"
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

func (r *router) ovaImages() objects[seedbed.OVA, wire.OVA] {
	return objects[seedbed.OVA, wire.OVA]{
		kind: "OVA image", list: r.Store.OVAs,
		of: func(o seedbed.OVA) (string, seedbed.ObjectMeta) { return o.Name, o.ObjectMeta },
		show: func(o seedbed.OVA) wire.OVA {
			return wire.OVA{Name: o.Name, Volumes: o.Volumes, Stored: wire.Stored(o.ObjectMeta)}
		},
	}
}

// uploadOVA receives an OVA, and starts its import.
func (r *router) uploadOVA(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "OVA image")
	if err != nil {
		return err
	}
	spec := seedbed.UploadSpec{Pool: strings.Clone(cmp.Or(c.Query("pool"), r.DefaultPool))}
	if spec.Node, err = nodeQuery(c); err == nil {
		spec.SHA256, err = wantedDigest(c, strings.ToLower(c.Query("sha256")))
	}
	if !isForm(c) {
		spec.Size = seedbed.Bytes(max(0, c.Request().Header.ContentLength()))
	}
	noteUpload(c, map[string]any{"name": n, "pool": spec.Pool, "node": spec.Node, "sha256": spec.SHA256})
	receipt, err := r.takeOVA(ctx, c, n, spec, err)
	if err != nil {
		return err
	}
	return accepted(c, receipt)
}

// removeOVA starts a job that removes an OVA image with its disks, its system template and its
// profile.
func (r *router) removeOVA(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "OVA image")
	if err != nil {
		return err
	}
	if err := r.ovaImages().match(ctx, c); err != nil {
		return err
	}
	receipt, err := r.OVAs.RemoveOVA(ctx, n)
	if err != nil {
		return err
	}
	return accepted(c, receipt)
}

// takeOVA receives the OVA in the body, and starts its import. wrong is an error that was already
// found in the request: the file is then not used.
func (r *router) takeOVA(ctx context.Context, c *fiber.Ctx, name string, spec seedbed.UploadSpec, wrong error) (seedbed.Receipt, error) {
	body, bodyErr := r.incoming(ctx, c, maxFrame)
	if body != nil {
		defer body.Close()
	}
	script, err := "", wrong
	if err == nil {
		script, err = r.ovaPrecondition(ctx, name, spec.Pool, spec.Size)
	}
	var up seedbed.Upload
	if err = cmp.Or(err, bodyErr); err == nil {
		up, err = r.takeIn(ctx, c, body, spec)
		err = ovaRefusal(err)
	}
	if err != nil {
		if body != nil {
			body.Linger(uploadLinger)
		}
		return seedbed.Receipt{}, err
	}
	receipt, err := r.OVAs.ImportOVA(ctx, name, script, up)
	if err != nil {
		err = r.unneeded(ctx, up, err)
	}
	return receipt, err
}

// ovaPrecondition returns the error that would prevent the import of an OVA, before the file is
// sent. A size of 0 is not known. It also returns the script of the OVA's profile.
func (r *router) ovaPrecondition(ctx context.Context, name, pool string, size seedbed.Bytes) (script string, err error) {
	if err := cmp.Or(seedbed.CheckOVAName(name), seedbed.CheckName("pool", pool)); err != nil {
		return "", err
	}
	if most := cmp.Or(r.MaxUpload, defaultMaxUpload); size > most {
		return "", httpserve.Problem{Status: fiber.StatusRequestEntityTooLarge, Kind: "invalid",
			Detail: fmt.Sprintf("the OVA has %d bytes, and at most %s may be uploaded (storage.max_upload)", size, most)}
	}
	m := seedbed.ExactName(name)
	for _, taken := range []func() (bool, string, error){
		func() (bool, string, error) {
			found, err := r.Store.OVAs(ctx, m)
			return len(found) > 0, "OVA image", err
		},
		func() (bool, string, error) {
			found, err := r.Store.SystemTemplates(ctx, m)
			return len(found) > 0, "system template", err
		},
		func() (bool, string, error) {
			_, err := r.Store.Profile(ctx, name)
			if errors.Is(err, seedbed.ErrNotFound) {
				return false, "", nil
			}
			return true, "profile", err
		},
	} {
		is, kind, err := taken()
		if err != nil {
			return "", err
		}
		if is {
			return "", seedbed.Errorf(seedbed.ErrExists, "the %s %q already exists", kind, name)
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
	return "", invalid("did not find an 'ova' or 'default_ova' provisioning script. Add one of that name first, which the profile of the OVA is to have: it may be empty, since the disks are cloned without it")
}

// ovaRefusal returns the error of an OVA import with what it is about.
func ovaRefusal(err error) error {
	if p, ok := errors.AsType[httpserve.Problem](err); ok && p.Status == fiber.StatusBadRequest {
		p.Detail = "failed to upload or write OVA file to temporary volume: " + p.Detail
		return p
	}
	switch {
	case errors.Is(err, seedbed.ErrFull):
		return seedbed.Errorf(seedbed.ErrFull, "the cluster does not have enough free space to store the OVA volume: %s", err)
	case errors.Is(err, seedbed.ErrInvalid):
		return invalid("the uploaded OVA file is not readable: %s", err)
	}
	return err
}
