package pvc

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// networkTemplateRow is a network template as PVC shows it.
type networkTemplateRow struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"`
	MAC      *string  `json:"mac_template"`
	OVA      *int64   `json:"ova"`
	Networks []netRow `json:"networks"`
}

type netRow struct {
	ID       int64  `json:"id"`
	Template int64  `json:"network_template"`
	VNI      string `json:"vni"`
}

func netRowOf(n seedbed.TemplateNetwork) netRow { return netRow{n.ID, n.Template, n.VNI} }

func networkTemplateRowOf(t seedbed.NetworkTemplate) networkTemplateRow {
	return networkTemplateRow{ID: t.ID, Name: t.Name, MAC: orNull(string(t.MAC)), Networks: server.Each(t.Networks, netRowOf)}
}

func (r *router) networkTemplates() collection[seedbed.NetworkTemplate] {
	return collection[seedbed.NetworkTemplate]{
		r: r, kind: seedbed.PublishedNetworkTemplate, list: r.Store.NetworkTemplates, none: "No network templates found.",
		names: func(t *seedbed.NetworkTemplate) []*string { return []*string{&t.Name} },
		numbers: func(t *seedbed.NetworkTemplate) []*int64 {
			numbers := []*int64{&t.ID}
			for n := range t.Networks {
				numbers = append(numbers, &t.Networks[n].ID, &t.Networks[n].Template)
			}
			return numbers
		},
		to: func(t *seedbed.NetworkTemplate) *seedbed.Publication { return t.Published },
	}
}

func (r *router) networkRoutes(p string, get, post, del routing) {
	get(seedbed.ActionTemplateRead, p, listed(r.networkTemplates(), networkTemplateRowOf))
	get(seedbed.ActionTemplateRead, p+"/:name", element(r.networkTemplates(), networkTemplateRowOf))
	creating(post, seedbed.ActionTemplateManage, p, "name", "name", nameMissing, r.createNetworkTemplate)
	del(seedbed.ActionTemplateManage, p+"/:name", removed(r.networkTemplates(), r.Store.DeleteNetworkTemplate))

	get(seedbed.ActionTemplateRead, p+"/:name/net", r.templateNetworks)
	get(seedbed.ActionTemplateRead, p+"/:name/net/:vni", r.templateNetworks)
	creating(post, seedbed.ActionTemplateManage, p+"/:name/net", "vni", "vni", "A valid VNI must be specified.", r.addTemplateNetwork)
	del(seedbed.ActionTemplateManage, p+"/:name/net/:vni", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		vni := server.Param(c, "vni")
		err := r.changeNetworks(ctx, c, func(t *seedbed.NetworkTemplate) error { return t.RemoveNetwork(vni) })
		if err != nil {
			return err
		}
		return say(c, `Removed network "%s" from network template "%s".`, vni, server.Param(c, "name"))
	})
}

// changeNetworks changes the network template that the path names.
func (r *router) changeNetworks(ctx context.Context, c *fiber.Ctx, change func(*seedbed.NetworkTemplate) error) error {
	name, err := r.networkTemplates().owned(ctx, c)
	if err == nil {
		_, err = r.Store.ChangeNetworkTemplate(ctx, name, change)
	}
	return err
}

func (r *router) createNetworkTemplate(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	mac := seedbed.MACTemplate(f.text("mac_template"))
	if f.err != nil {
		return f.err
	}
	qualified, err := r.networkTemplates().called(c, name)
	if err != nil {
		return err
	}
	if _, err := r.Store.CreateNetworkTemplate(ctx, qualified, mac); err != nil {
		return err
	}
	return say(c, `Added new network template "%s".`, name)
}

// addTemplateNetwork takes any non-empty permit_duplicate for yes, as PVC does.
func (r *router) addTemplateNetwork(ctx context.Context, c *fiber.Ctx, f *fields, vni string) error {
	again := f.text("permit_duplicate") != ""
	if f.err != nil {
		return f.err
	}
	err := r.changeNetworks(ctx, c, func(t *seedbed.NetworkTemplate) error { return t.AddNetwork(vni, again) })
	if err != nil {
		return err
	}
	return say(c, `Added new network "%s" to network template "%s".`, vni, server.Param(c, "name"))
}

// templateNetworks answers the networks of a template, or only those with the path's VNI.
func (r *router) templateNetworks(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	name, vni := server.Param(c, "name"), server.Param(c, "vni")
	t, err := r.networkTemplates().one(ctx, server.CallerOf(c), name)
	if err != nil {
		return err
	}
	nets := slices.DeleteFunc(t.Networks, func(n seedbed.TemplateNetwork) bool { return vni != "" && n.VNI != vni })
	return rows(c, nets, netRowOf, `No networks found in network template "`+name+`".`)
}
