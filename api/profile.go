package api

import (
	"context"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

func (r *router) profileRoutes(app *fiber.App) {
	app.Get(prefix+"/profiles", r.within(callTimeout, r.profiles))
	app.Post(prefix+"/profiles", r.within(callTimeout, r.createProfile))
	app.Get(prefix+"/profiles/:name", r.within(callTimeout, r.profile))
	app.Put(prefix+"/profiles/:name", r.within(callTimeout, r.changeProfile))
	app.Delete(prefix+"/profiles/:name", r.within(callTimeout, r.deleteProfile))
	app.Get(prefix+"/catalogue/profiles", r.within(callTimeout, r.profileEntries))
}

func (r *router) profile(ctx context.Context, c *fiber.Ctx) error {
	return show(ctx, c, "profile", r.Store.Profile, profileTag)
}

// profileEntries are the profiles of both kinds.
func (r *router) profileEntries(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.Store.ProfileEntries)
}

func (r *router) deleteProfile(ctx context.Context, c *fiber.Ctx) error {
	if err := unchanged(ctx, c, "profile", r.Store.Profile, profileTag); err != nil {
		return err
	}
	return drop(ctx, c, "profile", r.Store.DeleteProfile)
}

// profileRequest is a profile without what the store sets.
type profileRequest struct {
	Name     string        `json:"name"`
	Image    string        `json:"image"`
	VCPUs    int           `json:"vcpus"`
	Memory   seedbed.Bytes `json:"memory"`
	DiskSize seedbed.Bytes `json:"disk_size"`
	Network  string        `json:"network"`
	SSHKeys  []string      `json:"ssh_keys"`
	UserData []byte        `json:"user_data"`
	Ready    seedbed.Ready `json:"ready"`

	VendorData           []byte                  `json:"vendor_data"`
	VendorDataInUserData bool                    `json:"vendor_data_in_user_data"`
	Datasource           seedbed.Datasource      `json:"datasource"`
	Metadata             seedbed.MetadataOptions `json:"metadata"`
	Tags                 map[string]string       `json:"tags"`

	Params          []seedbed.Param   `json:"params"`
	Expressions     map[string]string `json:"expressions"`
	System          string            `json:"system_template"`
	NetworkTemplate string            `json:"network_template"`
	Storage         string            `json:"storage_template"`
	Document        string            `json:"userdata_document"`
	Follow          seedbed.Follow    `json:"userdata"`
	Protected       bool              `json:"protected"`
	Hold            bool              `json:"hold"`
	OnFailure       seedbed.OnFailure `json:"on_failure"`
}

func (r *router) createProfile(ctx context.Context, c *fiber.Ctx) error {
	var req profileRequest
	if err := receive(c, &req, r.maxDocuments()); err != nil {
		return err
	}
	p, err := r.checkProfile(ctx, req)
	if err != nil {
		return err
	}
	if p, err = r.Store.CreateProfile(ctx, p); err != nil {
		return err
	}
	return created(c, "/profiles/"+p.Name, p)
}

// changeProfile makes a profile what the body says, in all but its name, which
// the body may leave out.
func (r *router) changeProfile(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "profile")
	if err != nil {
		return err
	}
	var req profileRequest
	if err := receive(c, &req, r.maxDocuments()); err != nil {
		return err
	}
	if req.Name != "" && req.Name != n {
		return invalid("name %q: a profile keeps its name, which is %s", seedbed.Clip(req.Name), n)
	}
	req.Name = n
	next, err := r.checkProfile(ctx, req)
	if err != nil {
		return err
	}
	p, err := r.Store.ChangeProfile(ctx, n, func(p *seedbed.Profile) error {
		if err := matches(c, profileTag(*p)); err != nil {
			return err
		}
		*p = next
		return nil
	})
	if err != nil {
		return err
	}
	return tagged(c, profileTag(p), p)
}
