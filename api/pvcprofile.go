package api

import (
	"cmp"
	"context"
	"slices"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// provisionerRow is a provisioner profile as PVC shows it. What it does not have
// is "N/A": PVC's client prints it as it is.
type provisionerRow struct {
	ID        int64    `json:"id"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	System    string   `json:"system_template"`
	Network   string   `json:"network_template"`
	Storage   string   `json:"storage_template"`
	UserData  string   `json:"userdata"`
	Script    string   `json:"script"`
	OVA       string   `json:"ova"`
	Arguments []string `json:"arguments"`
}

func provisionerRowOf(p seedbed.ProvisionerProfile) provisionerRow {
	const none = "N/A"
	args := p.Arguments
	if len(args) == 0 {
		args = []string{""}
	}
	return provisionerRow{
		ID: p.ID, Name: p.Name, Type: string(p.Type), System: p.System, Network: cmp.Or(p.Network, none), Storage: cmp.Or(p.Storage, none),
		UserData: cmp.Or(p.UserData, none), Script: p.Script, OVA: none, Arguments: args,
	}
}

const noProfiles = "No profiles found."

func (r *router) pvcProfileRoutes(p string, get, post, put, del routing) {
	get(p, listed(r.Store.ProvisionerProfiles, provisionerRowOf, noProfiles))
	post(p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.createProvisionerProfile(ctx, c, f, f.must("name", "A name must be specified."))
	})
	get(p+"/:name", element(r.Store.ProvisionerProfiles, provisionerRowOf, noProfiles))
	post(p+"/:name", func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.createProvisionerProfile(ctx, c, f, param(c, "name"))
	})
	put(p+"/:name", r.changeProvisionerProfile)
	del(p+"/:name", removed(r.Store.DeleteProvisionerProfile, "VM profile"))
}

// arguments are the script's; one that is empty stands for none at all, which is
// how a list of them is emptied.
func arguments(f *fields) []string {
	return slices.DeleteFunc(f.list("arg"), func(a string) bool { return a == "" })
}

func (r *router) createProvisionerProfile(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	p := seedbed.ProvisionerProfile{
		Name:   name,
		Type:   seedbed.ProfileType(f.must("profile_type", "A profile type must be specified.")),
		System: f.must("system_template", "A system_template must be specified."),
		Script: f.must("script", "A script must be specified."),
	}
	p.Network, p.Storage, p.UserData, p.Arguments = f.text("network_template"), f.text("storage_template"), f.text("userdata"), arguments(f)
	ova := f.text("ova")
	switch {
	case f.err != nil:
		return f.err
	case ova != "" && p.Type == seedbed.ProfileProvisioner:
		return refused(fiber.StatusBadRequest, `The OVA image "%s" for profile "%s" does not exist.`, ova, name)
	}
	if _, err := r.Store.CreateProvisionerProfile(ctx, p); err != nil {
		return err
	}
	return say(c, `Created VM profile "%s".`, name)
}

func (r *router) changeProvisionerProfile(ctx context.Context, c *fiber.Ctx, f *fields) error {
	given := map[string]string{}
	for _, name := range []string{"system_template", "network_template", "storage_template", "userdata", "script"} {
		if v := f.text(name); v != "" {
			given[name] = v
		}
	}
	if f.err != nil {
		return f.err
	}
	name := param(c, "name")
	_, err := r.Store.ChangeProvisionerProfile(ctx, name, func(p *seedbed.ProvisionerProfile) {
		for name, at := range map[string]*string{
			"system_template": &p.System, "network_template": &p.Network, "storage_template": &p.Storage, "userdata": &p.UserData, "script": &p.Script,
		} {
			*at = cmp.Or(given[name], *at)
		}
		if f.has("arg") {
			p.Arguments = arguments(f)
		}
	})
	if err != nil {
		return err
	}
	return say(c, `Modified VM profile "%s".`, name)
}
