package pvc

import (
	"cmp"
	"context"
	"slices"

	"seedbed"
	"seedbed/api/server"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"
)

// provisionerRow is PVC's view of a profile with a script. Absent values are "N/A", because PVC's
// client prints them unchanged.
type provisionerRow struct {
	ID        int64  `json:"id"`
	Name      string `json:"name"`
	Type      string `json:"type"`
	System    string `json:"system_template"`
	Network   string `json:"network_template"`
	Storage   string `json:"storage_template"`
	UserData  string `json:"userdata"`
	Script    string `json:"script"`
	OVA       string `json:"ova"`
	Arguments given  `json:"arguments"`
	// PVC's profiles do not have these fields. They are left out when they have their defaults.
	Params    []seedbed.Param `json:"params,omitempty"`
	Follow    seedbed.Follow  `json:"follow,omitempty"`
	Protected bool            `json:"protected,omitempty"`
	Hold      bool            `json:"hold,omitempty"`
}

// given are the arguments of a script; PVC's form of none is one empty argument.
type given []string

// ForViewers leaves the arguments out, because any may be a password.
func (given) ForViewers() any { return []string{""} }

// The types of PVC's profiles.
const (
	typeProvisioner = "provisioner" // templates and a script
	typeOVA         = "ova"         // an OVA image
)

func provisionerRowOf(p seedbed.Profile) provisionerRow {
	const none = "N/A"
	row := provisionerRow{
		ID: p.ID, Name: p.Name, Type: typeProvisioner, System: cmp.Or(p.System, none),
		Network: cmp.Or(p.NetworkTemplate, none), Storage: cmp.Or(p.Storage, none),
		UserData: cmp.Or(p.Document, none), Script: p.Script, OVA: cmp.Or(p.OVA, none), Arguments: p.Arguments,
		Params: p.Params, Follow: p.Follow, Protected: p.Protected, Hold: p.Hold,
	}
	if p.OVA != "" {
		row.Type = typeOVA
	}
	if len(row.Arguments) == 0 {
		row.Arguments = []string{""}
	}
	if row.Follow == seedbed.FollowLive {
		row.Follow = ""
	}
	return row
}

const noProfiles = "No profiles found."

func (r *router) profileRoutes(p string, get, post, put, del routing) {
	get(seedbed.ActionTemplateRead, p, listed(r.Store.ScriptedProfiles, provisionerRowOf, noProfiles))
	get(seedbed.ActionTemplateRead, p+"/:name", element(r.Store.ScriptedProfiles, provisionerRowOf, noProfiles))
	creating(post, seedbed.ActionProfileManage, p, "name", "name", nameMissing, r.createScripted)
	put(seedbed.ActionProfileManage, p+"/:name", r.changeScripted)
	del(seedbed.ActionProfileManage, p+"/:name", removed(r.deleteScripted, "VM profile"))
}

// scripted returns the profile of that name. PVC's API knows only profiles with a script.
func (r *router) scripted(ctx context.Context, name string) (seedbed.Profile, error) {
	found, err := r.Store.ScriptedProfiles(ctx, seedbed.ExactName(name))
	if err != nil {
		return seedbed.Profile{}, err
	}
	if len(found) == 0 {
		return seedbed.Profile{}, noScripted(name)
	}
	return found[0], nil
}

func noScripted(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "the profile %q does not exist", seedbed.Clip(name))
}

func (r *router) deleteScripted(ctx context.Context, name string, checks ...func(seedbed.Profile) error) error {
	if _, err := r.scripted(ctx, name); err != nil {
		return err
	}
	return r.Store.DeleteProfile(ctx, name, checks...)
}

// arguments returns the script's arguments without empty ones. A client sends one empty argument to
// empty the list.
func arguments(f *fields) []string {
	return slices.DeleteFunc(f.list("arg"), func(a string) bool { return a == "" })
}

func (r *router) createScripted(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	kind := f.text("profile_type")
	switch {
	case kind != "":
	case f.has("ova"):
		kind = typeOVA
	default: // as before there were others
		kind = typeProvisioner
	}
	system := f.must("system_template", "A system_template must be specified.")
	p := seedbed.NewScripted(name, f.must("script", "A script must be specified."))
	p.System, p.NetworkTemplate, p.Storage, p.Document, p.Arguments = system,
		f.text("network_template"), f.text("storage_template"), f.text("userdata"), arguments(f)
	p.OVA = f.text("ova")
	switch {
	case f.err != nil:
		return f.err
	case p.OVA != "" && kind == typeProvisioner:
		return refused(fiber.StatusBadRequest, `The OVA image "%s" for profile "%s" does not exist.`, p.OVA, name)
	}
	beyond(f, &p)
	if f.err != nil {
		return f.err
	}
	if err := cmp.Or(seedbed.CheckName("profile", name), r.checkScripted(ctx, p, kind),
		seedbed.CheckParams(p.Params), r.CheckProfile(ctx, r.Store, p)); err != nil {
		return err
	}
	if _, err := r.Store.CreateProfile(ctx, p); err != nil {
		return err
	}
	return say(c, `Created VM profile "%s".`, name)
}

// checkScripted refuses a profile whose type is not the one that PVC's client sent. After that, it
// refuses one that lacks a template or names one that does not exist.
func (r *router) checkScripted(ctx context.Context, p seedbed.Profile, kind string) error {
	switch {
	case kind != typeProvisioner && kind != typeOVA:
		return server.Invalid("a valid profile type (provisioner, ova) must be specified")
	case kind == typeOVA && p.OVA == "":
		return server.Invalid("an OVA image must be specified for profile %q, since it is of type ova", p.Name)
	}
	for _, ref := range []struct {
		kind, name string
		there      func(context.Context, seedbed.NameMatch) (bool, error)
	}{
		{"system template", p.System, there(r.Store.SystemTemplates)},
		{"network template", p.NetworkTemplate, there(r.Store.NetworkTemplates)},
		{"storage template", p.Storage, there(r.Store.StorageTemplates)},
	} {
		if ref.name == "" && kind == typeOVA {
			continue
		}
		if ref.name == "" {
			return server.Invalid("a %s must be specified for profile %q", ref.kind, p.Name)
		}
		found, err := ref.there(ctx, seedbed.ExactName(ref.name))
		if err != nil {
			return err
		}
		if !found {
			return server.Invalid("the %s %q for profile %q does not exist", ref.kind, seedbed.Clip(ref.name), p.Name)
		}
	}
	return nil
}

// there returns a function that reports whether list finds a match.
func there[T any](list func(context.Context, seedbed.NameMatch) ([]T, error)) func(context.Context, seedbed.NameMatch) (bool, error) {
	return func(ctx context.Context, m seedbed.NameMatch) (bool, error) {
		found, err := list(ctx, m)
		return len(found) > 0, err
	}
}

func (r *router) changeScripted(ctx context.Context, c *fiber.Ctx, f *fields) error {
	given := map[string]string{}
	for _, name := range []string{"system_template", "network_template", "storage_template", "userdata", "script"} {
		if v := f.text(name); v != "" {
			given[name] = v
		}
	}
	if f.err != nil {
		return f.err
	}
	name := server.Param(c, "name")
	change := func(p *seedbed.Profile) error {
		if p.Script == "" {
			return noScripted(name)
		}
		for name, at := range map[string]*string{
			"system_template": &p.System, "network_template": &p.NetworkTemplate,
			"storage_template": &p.Storage, "userdata": &p.Document, "script": &p.Script,
		} {
			*at = cmp.Or(given[name], *at)
		}
		if f.has("arg") {
			p.Arguments = arguments(f)
		}
		beyond(f, p)
		return f.err
	}
	next, err := r.scripted(ctx, name)
	if err != nil {
		return err
	}
	if err := change(&next); err != nil {
		return err
	}
	if err := cmp.Or(seedbed.CheckParams(next.Params), r.CheckProfile(ctx, r.Store, next)); err != nil {
		return err
	}
	if _, err := r.Store.ChangeProfile(ctx, name, change); err != nil {
		return err
	}
	return say(c, `Modified VM profile "%s".`, name)
}

// beyond reads the fields that PVC's profiles do not have. Absent parameters leave p unchanged.
func beyond(f *fields, p *seedbed.Profile) {
	if f.has("params") {
		p.Params = nil
		if text := f.text("params"); text != "" {
			var declared []seedbed.Param
			if err := json.Unmarshal([]byte(text), &declared, json.RejectUnknownMembers(true)); err != nil {
				f.refuse(refused(fiber.StatusBadRequest,
					"The params are not usable: expected a JSON array such as "+
						`[{"name":"size","type":"enum","values":["small","large"],"default":"small"}].`))
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
