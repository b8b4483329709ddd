package api

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"seedbed"

	"github.com/go-json-experiment/json"
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
	// What PVC's profiles do not have; left out where it is the default.
	Params    []seedbed.Param `json:"params,omitempty"`
	Follow    seedbed.Follow  `json:"follow,omitempty"`
	Protected bool            `json:"protected,omitempty"`
	Hold      bool            `json:"hold,omitempty"`
}

func provisionerRowOf(p seedbed.ProvisionerProfile) provisionerRow {
	const none = "N/A"
	args := p.Arguments
	if len(args) == 0 {
		args = []string{""}
	}
	follow := p.Follow
	if follow == seedbed.FollowLive {
		follow = ""
	}
	return provisionerRow{
		ID: p.ID, Name: p.Name, Type: string(p.Type), System: p.System, Network: cmp.Or(p.Network, none), Storage: cmp.Or(p.Storage, none),
		UserData: cmp.Or(p.UserData, none), Script: p.Script, OVA: cmp.Or(p.OVA, none), Arguments: args,
		Params: p.Params, Follow: follow, Protected: p.Protected, Hold: p.Hold,
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
		return absent(fiber.StatusBadRequest, `The OVA image "%s" for profile "%s" does not exist.`, ova, name)
	}
	p.OVA = ova
	beyond(f, &p)
	if f.err != nil {
		return f.err
	}
	if err := seedbed.CheckParams(p.Params); err != nil {
		return err
	}
	if err := r.CheckComposed(ctx, p); err != nil {
		return r.partError(ctx, p, err)
	}
	if _, err := r.Store.CreateProvisionerProfile(ctx, p); err != nil {
		return r.partError(ctx, p, err)
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
	change := func(p *seedbed.ProvisionerProfile) {
		for name, at := range map[string]*string{
			"system_template": &p.System, "network_template": &p.Network, "storage_template": &p.Storage, "userdata": &p.UserData, "script": &p.Script,
		} {
			*at = cmp.Or(given[name], *at)
		}
		if f.has("arg") {
			p.Arguments = arguments(f)
		}
		beyond(f, p)
	}
	if err := r.checkComposedChange(ctx, name, change); err != nil {
		return err
	}
	if f.err != nil {
		return f.err
	}
	_, err := r.Store.ChangeProvisionerProfile(ctx, name, change)
	if err != nil {
		var p seedbed.ProvisionerProfile
		change(&p)
		return r.partError(ctx, p, err)
	}
	return say(c, `Modified VM profile "%s".`, name)
}

// beyond reads what PVC's profiles do not have; what is not there stays.
func beyond(f *fields, p *seedbed.ProvisionerProfile) {
	if f.has("params") {
		p.Params = nil
		if text := f.text("params"); text != "" {
			var declared []seedbed.Param
			if err := json.Unmarshal([]byte(text), &declared, json.RejectUnknownMembers(true)); err != nil {
				f.refuse(refused(fiber.StatusBadRequest, `The params are not usable: want a JSON array such as [{"name":"size","type":"enum","values":["small","large"],"default":"small"}].`))
			}
			p.Params = declared
		}
	}
	if text := f.text("follow"); text != "" {
		p.Follow = seedbed.Follow(text)
	}
	if f.has("protected") {
		p.Protected = f.flag("protected")
	}
	if f.has("hold") {
		p.Hold = f.flag("hold")
	}
}

// checkComposedChange checks a profile as it would be after a change, as far as
// the database cannot.
func (r *router) checkComposedChange(ctx context.Context, name string, change func(*seedbed.ProvisionerProfile)) error {
	found, err := r.Store.ProvisionerProfiles(ctx, seedbed.ExactName(name))
	if err != nil || len(found) != 1 {
		return err // that it is not there, the change says
	}
	p := found[0]
	change(&p)
	if err := seedbed.CheckParams(p.Params); err != nil {
		return err
	}
	return r.partError(ctx, p, r.CheckComposed(ctx, p))
}

// partError is err, of kind ErrNotFound where a part that p names is not there.
func (r *router) partError(ctx context.Context, p seedbed.ProvisionerProfile, err error) error {
	if !errors.Is(err, seedbed.ErrInvalid) {
		return err
	}
	for _, missing := range []func() (bool, error){
		func() (bool, error) { return missingPart(ctx, p.System, r.Store.SystemTemplates) },
		func() (bool, error) { return missingPart(ctx, p.Network, r.Store.NetworkTemplates) },
		func() (bool, error) { return missingPart(ctx, p.Storage, r.Store.StorageTemplates) },
		func() (bool, error) { return missingPart(ctx, p.UserData, r.Store.UserDataDocuments) },
		func() (bool, error) { return missingPart(ctx, p.Script, r.Store.Scripts) },
	} {
		if is, other := missing(); is && other == nil {
			return &refusal{status: fiber.StatusBadRequest, message: sentence(err.Error()), kind: seedbed.ErrNotFound}
		}
	}
	return err
}

// missingPart reports whether there is nothing of that name; an empty name is nothing missing.
func missingPart[T any](ctx context.Context, name string, read func(context.Context, seedbed.NameMatch) ([]T, error)) (bool, error) {
	if name == "" {
		return false, nil
	}
	found, err := read(ctx, seedbed.ExactName(name))
	return len(found) == 0, err
}
