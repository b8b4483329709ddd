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

const noNetworks = "No network templates found."

func (r *router) networkRoutes(p string, get, post, del routing) {
	get(seedbed.ActionTemplateRead, p, listed(r.Store.NetworkTemplates, networkTemplateRowOf, noNetworks))
	get(seedbed.ActionTemplateRead, p+"/:name", element(r.Store.NetworkTemplates, networkTemplateRowOf, noNetworks))
	creating(post, seedbed.ActionTemplateManage, p, "name", "name", nameMissing, r.createNetworkTemplate)
	del(seedbed.ActionTemplateManage, p+"/:name", removed(r.Store.DeleteNetworkTemplate, "network template"))

	get(seedbed.ActionTemplateRead, p+"/:name/net", r.templateNetworks)
	get(seedbed.ActionTemplateRead, p+"/:name/net/:vni", r.templateNetworks)
	creating(post, seedbed.ActionTemplateManage, p+"/:name/net", "vni", "vni", "A valid VNI must be specified.", r.addTemplateNetwork)
	del(seedbed.ActionTemplateManage, p+"/:name/net/:vni", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		name, vni := server.Param(c, "name"), server.Param(c, "vni")
		_, err := r.Store.ChangeNetworkTemplate(ctx, name, func(t *seedbed.NetworkTemplate) error { return t.RemoveNetwork(vni) })
		if err != nil {
			return err
		}
		return say(c, `Removed network "%s" from network template "%s".`, vni, name)
	})
}

func (r *router) createNetworkTemplate(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	mac := seedbed.MACTemplate(f.text("mac_template"))
	if f.err != nil {
		return f.err
	}
	if _, err := r.Store.CreateNetworkTemplate(ctx, name, mac); err != nil {
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
	name := server.Param(c, "name")
	_, err := r.Store.ChangeNetworkTemplate(ctx, name, func(t *seedbed.NetworkTemplate) error { return t.AddNetwork(vni, again) })
	if err != nil {
		return err
	}
	return say(c, `Added new network "%s" to network template "%s".`, vni, name)
}

// templateNetworks answers the networks of a template, or only those with the path's VNI.
func (r *router) templateNetworks(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	name, vni := server.Param(c, "name"), server.Param(c, "vni")
	t, err := template(ctx, r.Store.NetworkTemplates, "network template", name)
	if err != nil {
		return err
	}
	nets := slices.DeleteFunc(t.Networks, func(n seedbed.TemplateNetwork) bool { return vni != "" && n.VNI != vni })
	return rows(c, nets, netRowOf, `No networks found in network template "`+name+`".`)
}
