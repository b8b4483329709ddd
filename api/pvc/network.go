package pvc

import (
	"context"

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
	get(viewer, p, listed(r.Store.NetworkTemplates, networkTemplateRowOf, noNetworks))
	post(operator, p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.createNetworkTemplate(ctx, c, f, f.must("name", "A name must be specified."))
	})
	get(viewer, p+"/:name", element(r.Store.NetworkTemplates, networkTemplateRowOf, noNetworks))
	post(operator, p+"/:name", func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.createNetworkTemplate(ctx, c, f, server.Param(c, "name"))
	})
	del(operator, p+"/:name", removed(r.Store.DeleteNetworkTemplate, "network template"))

	get(viewer, p+"/:name/net", r.templateNetworks)
	post(operator, p+"/:name/net", func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.addTemplateNetwork(ctx, c, f, f.must("vni", "A valid VNI must be specified."))
	})
	get(viewer, p+"/:name/net/:vni", r.templateNetworks)
	post(operator, p+"/:name/net/:vni", func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return r.addTemplateNetwork(ctx, c, f, server.Param(c, "vni"))
	})
	del(operator, p+"/:name/net/:vni", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		name, vni := server.Param(c, "name"), server.Param(c, "vni")
		if err := r.Store.RemoveTemplateNetwork(ctx, name, vni); err != nil {
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
	if err := r.Store.AddTemplateNetwork(ctx, name, vni, again); err != nil {
		return err
	}
	return say(c, `Added new network "%s" to network template "%s".`, vni, name)
}

// templateNetworks answers the networks of a template, or only those with the path's VNI.
func (r *router) templateNetworks(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	name, vni := server.Param(c, "name"), server.Param(c, "vni")
	found, err := r.Store.NetworkTemplates(ctx, seedbed.ExactName(name))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return refused(fiber.StatusNotFound, `The network template "%s" does not exist.`, name)
	}
	var nets []seedbed.TemplateNetwork
	for _, n := range found[0].Networks {
		if vni == "" || n.VNI == vni {
			nets = append(nets, n)
		}
	}
	return rows(c, nets, netRowOf, `No networks found in network template "`+name+`".`)
}
