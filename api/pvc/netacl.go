package pvc

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"seedbed"
	"seedbed/api/server"
	"seedbed/provision/network"

	"github.com/gofiber/fiber/v2"
)

// aclRow is an ACL of a network as PVC shows it.
type aclRow struct {
	Direction   seedbed.Direction `json:"direction"`
	Order       int               `json:"order"`
	Description string            `json:"description"`
	Rule        string            `json:"rule"`
}

// aclRows returns the ACLs of a network: those of the direction in first, each in their order.
func aclRows(n seedbed.Network) []aclRow {
	all := []aclRow{}
	for _, d := range []seedbed.Direction{seedbed.DirectionIn, seedbed.DirectionOut} {
		for order, a := range aclsOf(n, d) {
			all = append(all, aclRow{d, order, a.Description, a.Rule})
		}
	}
	return all
}

func aclsOf(n seedbed.Network, d seedbed.Direction) (all []seedbed.NetworkACL) {
	for _, a := range n.ACLs {
		if a.Direction == d {
			all = append(all, a)
		}
	}
	return all
}

const directionWrong = "A valid direction must be specified."

// direction returns the parameter of that name, which may be missing.
func direction(f *fields) seedbed.Direction {
	d := seedbed.Direction(f.text("direction"))
	if f.err == nil && d != "" && d != seedbed.DirectionIn && d != seedbed.DirectionOut {
		f.wrong("direction", directionWrong)
	}
	return d
}

// netACLs answers the ACLs of a network whose descriptions match the parameter limit, or the one that the path names.
func (r *router) netACLs(ctx context.Context, c *fiber.Ctx, f *fields) error {
	text, only := f.text("limit"), direction(f)
	if name := server.Param(c, "acl"); name != "" {
		text = "^" + regexp.QuoteMeta(name) + "$"
	}
	if f.err != nil {
		return f.err
	}
	match, err := regexp.Compile(text)
	if err != nil || len(text) > maxFields {
		return refused(fiber.StatusBadRequest, "ERROR: The limit is not a regular expression.")
	}
	n, err := r.net(ctx, c)
	if err != nil {
		return refused(fiber.StatusBadRequest, `ERROR: Could not find network "%s" in the cluster!`, server.Param(c, "net"))
	}
	if !server.CallerOf(c).Learns(n.Name) {
		n.ACLs = nil
	}
	all := slices.DeleteFunc(aclRows(n), func(a aclRow) bool {
		return only != "" && a.Direction != only || !match.MatchString(a.Description)
	})
	return rows(c, all, func(a aclRow) aclRow { return a }, "ACL not found.")
}

const aclMissing = "A whitespace-free description must be specified."

// addACL adds an ACL to the security groups of a network.
func (r *router) addACL(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	rule, d, last := f.must("rule", "A rule must be specified."), direction(f), !f.has("order") || f.text("order") == ""
	order := 0
	if !last {
		order = f.number("order", "ERROR: The order must be an integer.")
	}
	if f.err == nil && (name == "" || strings.ContainsFunc(name, unicode.IsSpace)) {
		f.wrong("description", aclMissing)
	}
	if f.err != nil {
		return f.err
	}
	if d == "" { // what PVC's client sends if it is told nothing
		d = seedbed.DirectionIn
	}
	if order < 0 {
		return refused(fiber.StatusBadRequest, "ERROR: The order must not be negative.")
	}
	n, err := r.groupedNet(ctx, c)
	if err != nil {
		return err
	}
	_, err = r.Store.ChangeNetwork(ctx, n.Name, func(n *seedbed.Network) error {
		if slices.ContainsFunc(n.ACLs, func(a seedbed.NetworkACL) bool { return a.Description == name }) {
			return refused(fiber.StatusBadRequest, "ERROR: A rule with description '%s' already exists!", seedbed.Clip(name))
		}
		a, err := network.ACL(*n, d, name, rule)
		if err != nil {
			return refused(fiber.StatusBadRequest, "ERROR: Failed to add firewall rule. %s", server.Sentence(err.Error()))
		}
		in, out := aclsOf(*n, seedbed.DirectionIn), aclsOf(*n, seedbed.DirectionOut)
		place := &in
		if d == seedbed.DirectionOut {
			place = &out
		}
		at := min(order, len(*place))
		if last {
			at = len(*place)
		}
		*place = slices.Insert(*place, at, a)
		n.ACLs = slices.Concat(in, out)
		return nil
	})
	if err != nil {
		return err
	}
	return say(c, "Firewall rule '%s' added successfully!", name)
}

// groupedNet is ownNet for a request that changes the security groups of the network.
func (r *router) groupedNet(ctx context.Context, c *fiber.Ctx) (seedbed.Network, error) {
	if err := server.CallerOf(c).Need(seedbed.ActionSecurityGroupManage); err != nil {
		return seedbed.Network{}, err
	}
	return r.ownNet(ctx, c)
}

// removeACL removes the ACL that the path names.
func (r *router) removeACL(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	n, err := r.groupedNet(ctx, c)
	if err != nil {
		return err
	}
	name := server.Param(c, "acl")
	_, err = r.Store.ChangeNetwork(ctx, n.Name, func(n *seedbed.Network) error {
		at := slices.IndexFunc(n.ACLs, func(a seedbed.NetworkACL) bool { return a.Description == name })
		if at < 0 {
			return refused(fiber.StatusBadRequest, "ERROR: No firewall rule exists matching description '%s'!", seedbed.Clip(name))
		}
		n.ACLs = slices.Delete(slices.Clone(n.ACLs), at, at+1)
		return nil
	})
	if err != nil {
		return err
	}
	return say(c, "Firewall rule '%s' removed successfully!", name)
}
