package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// TakeOVA receives the OVA in the body, and starts its import with the options o. wrong is an error
// that was already found in the request: the file is then not used.
func (r *Router) TakeOVA(
	ctx context.Context, c *fiber.Ctx, name string, spec seedbed.UploadSpec, o seedbed.JobOptions, wrong error,
) (seedbed.Receipt, error) {
	body, bodyErr := r.Incoming(ctx, c, MaxFrame)
	if body != nil {
		defer body.Close()
	}
	script, err := "", wrong
	if err == nil {
		script, err = r.OVAPrecondition(ctx, name, spec.Pool, spec.Size)
	}
	var up seedbed.Upload
	if err = cmp.Or(err, bodyErr); err == nil {
		up, err = r.TakeIn(ctx, c, body, spec)
		err = ovaRefusal(err)
	}
	if err != nil {
		if body != nil {
			body.Linger(UploadLinger)
		}
		return seedbed.Receipt{}, err
	}
	receipt, err := r.OVAs.ImportOVA(ctx, name, script, up, o)
	if err != nil {
		err = r.Unneeded(ctx, up, err)
	}
	return receipt, err
}

// OVAPrecondition returns the error that would prevent the import of an OVA, before the file is
// sent. A size of 0 is not known. It also returns the script of the OVA's profile.
func (r *Router) OVAPrecondition(ctx context.Context, name, pool string, size seedbed.Bytes) (script string, err error) {
	if err := cmp.Or(seedbed.CheckOVAName(name), seedbed.CheckName("pool", pool)); err != nil {
		return "", err
	}
	if most := cmp.Or(r.MaxUpload, DefaultMaxUpload); size > most {
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
	for _, script := range seedbed.OVAScripts() {
		qualified, err := r.Store.Resolve(ctx, seedbed.PublishedScript, seedbed.ProjectOf(name), script)
		if err == nil {
			return seedbed.Explicit(qualified), nil
		}
		if !errors.Is(err, seedbed.ErrNotFound) {
			return "", err
		}
	}
	return "", Invalid("did not find an 'ova' or 'default_ova' provisioning script. " +
		"Add one of that name first, which the profile of the OVA is to have: it may be empty, since the disks are cloned without it")
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
		return Invalid("the uploaded OVA file is not readable: %s", err)
	}
	return err
}
