package pvc

import (
	"cmp"
	"context"
	"errors"
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
		UserData: cmp.Or(p.Document, none), Script: cmp.Or(p.Script, none), OVA: cmp.Or(p.OVA, none), Arguments: p.Arguments,
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

// scripted has the profiles that PVC's API knows: those with a script.
func (r *router) scripted() collection[seedbed.Profile] {
	return collection[seedbed.Profile]{
		r: r, kind: seedbed.PublishedProfile, list: r.Store.ScriptedProfiles, none: "No profiles found.", label: "VM profile",
		names: func(p *seedbed.Profile) []*string {
			return []*string{&p.Name, &p.System, &p.NetworkTemplate, &p.Storage, &p.Document, &p.Script}
		},
		numbers: func(p *seedbed.Profile) []*int64 { return []*int64{&p.ID} },
		to:      func(p *seedbed.Profile) *seedbed.Publication { return p.Published },
		shown:   server.ShownProfile,
	}
}

func (r *router) profileRoutes(p string, get, post, put, del routing) {
	get(seedbed.ActionTemplateRead, p, listed(r.scripted(), provisionerRowOf))
	get(seedbed.ActionTemplateRead, p+"/:name", element(r.scripted(), provisionerRowOf))
	creating(post, seedbed.ActionProfileManage, p, "name", "name", nameMissing, r.createScripted)
	put(seedbed.ActionProfileManage, p+"/:name", r.changeScripted)
	del(seedbed.ActionProfileManage, p+"/:name", removed(r.scripted(), r.deleteScripted))
}

// noScripted is the error for a profile that does not exist, or that has no script.
func noScripted(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "the profile %q does not exist", seedbed.Clip(name))
}

// deleteScripted deletes a profile with a script, by its qualified name.
func (r *router) deleteScripted(ctx context.Context, name string, checks ...func(seedbed.Profile) error) error {
	return r.Store.DeleteProfile(ctx, name, append(checks, func(p seedbed.Profile) error {
		if p.Script == "" {
			return noScripted(p.Name)
		}
		return nil
	})...)
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
	var err error
	if p.Name, err = r.scripted().called(c, name); err != nil {
		return err
	}
	if err := cmp.Or(r.checkScripted(ctx, p, kind),
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
		kind seedbed.PublishedKind
		name string
	}{
		{seedbed.PublishedSystemTemplate, p.System}, {seedbed.PublishedNetworkTemplate, p.NetworkTemplate},
		{seedbed.PublishedStorageTemplate, p.Storage},
	} {
		if ref.name == "" && kind == typeOVA {
			continue
		}
		if ref.name == "" {
			return server.Invalid("a %s must be specified for profile %q", ref.kind.Noun(), p.Name)
		}
		_, err := r.Store.Resolve(ctx, ref.kind, seedbed.ProjectOf(p.Name), ref.name)
		if errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrInvalid) {
			err = server.Invalid("the %s %q for profile %q does not exist", ref.kind.Noun(), seedbed.Clip(ref.name), p.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	qualified, err := r.scripted().owned(ctx, c)
	if err != nil {
		return err
	}
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
	next, err := r.Store.Profile(ctx, qualified)
	if err != nil {
		return err
	}
	if err := change(&next); err != nil {
		return err
	}
	if err := cmp.Or(seedbed.CheckParams(next.Params), r.CheckProfile(ctx, r.Store, next)); err != nil {
		return err
	}
	if _, err := r.Store.ChangeProfile(ctx, qualified, change); err != nil {
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
