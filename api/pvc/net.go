package pvc

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// netInfo is a network as PVC shows it. Its flags are text. "None" stands for an absent value.
type netInfo struct {
	VNI         int64    `json:"vni"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	MTU         string   `json:"mtu"`
	Domain      string   `json:"domain"`
	NameServers []string `json:"name_servers"`
	IP6         netIP6   `json:"ip6"`
	IP4         netIP4   `json:"ip4"`
}

type netIP6 struct {
	Network string `json:"network"`
	Gateway string `json:"gateway"`
	DHCP    string `json:"dhcp_flag"`
}

type netIP4 struct {
	Network string `json:"network"`
	Gateway string `json:"gateway"`
	DHCP    string `json:"dhcp_flag"`
	Start   string `json:"dhcp_start"`
	End     string `json:"dhcp_end"`
}

const (
	noNet = "Network not found."
	// none is the text that PVC's client takes for an absent value.
	none = "None"
)

func netInfoOf(n seedbed.Network) netInfo {
	i := netInfo{VNI: vniOf(n.Name), Description: cmp.Or(n.Description, shownName(n)), Type: "managed",
		MTU: strconv.Itoa(cmp.Or(n.MTU, seedbed.EthernetMTU)), Domain: cmp.Or(n.Domain, none),
		NameServers: server.Each(n.DNS, netip.Addr.String), IP6: netIP6{none, none, "False"},
		IP4: netIP4{none, none, "False", none, none}}
	if n.Kind.OnWire() { // PVC has no networks by macvtap: its VMs name the interface themselves
		i.Type = "bridged"
	}
	if n.Prefix.IsValid() {
		i.IP4.Network = n.Prefix.String()
	}
	if n.Gateway.IsValid() && n.Kind != seedbed.NetworkIsolated {
		i.IP4.Gateway = n.Gateway.String()
	}
	if n.Prefix6.IsValid() {
		i.IP6 = netIP6{n.Prefix6.String(), none, "False"}
		if g := n.Gateway6(); g.IsValid() && n.Kind != seedbed.NetworkIsolated {
			i.IP6.Gateway = g.String()
		}
		if n.DHCP {
			i.IP6.DHCP = "True"
		}
	}
	if n.DHCP && n.Prefix.IsValid() {
		last := n.Range.Last
		if !last.IsValid() {
			last = seedbed.LastAddr(n.Prefix).Prev()
		}
		i.IP4.DHCP, i.IP4.Start, i.IP4.End = "True", n.NextAddr(netip.Addr{}).String(), last.String()
	}
	return i
}

func (r *router) netRoutes(p string, get, post, put, del routing) {
	get(seedbed.ActionNetworkRead, p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		m := f.match()
		if f.err != nil {
			return f.err
		}
		all, err := r.nets(ctx, server.CallerOf(c))
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(n seedbed.Network) bool {
			return !m.Matches(shownName(n)) && !m.Matches(strconv.FormatInt(vniOf(n.Name), 10)) && (n.Description == "" || !m.Matches(n.Description))
		})
		return rows(c, all, netInfoOf, noNet)
	})
	get(seedbed.ActionNetworkRead, p+"/:net", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		n, err := r.net(ctx, c)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, []netInfo{netInfoOf(n)})
	})
	post(seedbed.ActionNetworkManage, p, r.createNet)
	put(seedbed.ActionNetworkManage, p+"/:net", r.modifyNet)
	del(seedbed.ActionNetworkManage, p+"/:net", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		n, err := r.ownNet(ctx, c)
		if err != nil {
			return err
		}
		if err := r.Store.DeleteNetwork(ctx, n.Name); err != nil {
			return err
		}
		return say(c, "Network '%s' removed successfully!", netInfoOf(n).Description)
	})
	get(seedbed.ActionLeaseRead, p+"/:net/lease", r.netLeases)
	get(seedbed.ActionLeaseRead, p+"/:net/lease/:mac", r.netLeases)
	post(seedbed.ActionNetworkManage, p+"/:net/lease", r.addLease)
	post(seedbed.ActionNetworkManage, p+"/:net/lease/:mac", r.addLease)
	del(seedbed.ActionNetworkManage, p+"/:net/lease/:mac", r.removeLease)
	get(seedbed.ActionNetworkRead, p+"/:net/acl", r.netACLs)
	get(seedbed.ActionNetworkRead, p+"/:net/acl/:acl", r.netACLs)
	creating(post, seedbed.ActionNetworkManage, p+"/:net/acl", "acl", "description", aclMissing, r.addACL)
	del(seedbed.ActionNetworkManage, p+"/:net/acl/:acl", r.removeACL)
}

// shownName is the name of a network in requests of its own project, and of the default project in those of others.
func shownName(n seedbed.Network) string { return seedbed.ShortName(n.Name) }

// nets returns the networks that PVC's clients see: those of the caller's project, and those that the default project
// publishes to it and that have the name of none of its own.
func (r *router) nets(ctx context.Context, who server.Caller) ([]seedbed.Network, error) {
	all, err := r.Store.Networks(ctx)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, n := range all {
		if seedbed.ProjectOf(n.Name) == who.Project {
			own[shownName(n)] = true
		}
	}
	return slices.DeleteFunc(all, func(n seedbed.Network) bool {
		switch seedbed.ProjectOf(n.Name) {
		case who.Project:
			return false
		case seedbed.DefaultProject:
			return own[n.Name] || !n.Published.Lets(who.Project, n.Name)
		}
		return true
	}), nil
}

// net returns the network that the path names.
func (r *router) net(ctx context.Context, c *fiber.Ctx) (seedbed.Network, error) {
	return r.netNamed(ctx, server.CallerOf(c), server.Param(c, "net"))
}

// netNamed returns the network with that name, number or description.
func (r *router) netNamed(ctx context.Context, who server.Caller, want string) (seedbed.Network, error) {
	all, err := r.nets(ctx, who)
	if err != nil {
		return seedbed.Network{}, err
	}
	want = strings.TrimSpace(want)
	for _, same := range []func(seedbed.Network) bool{
		func(n seedbed.Network) bool { return shownName(n) == want },
		func(n seedbed.Network) bool { return strconv.FormatInt(vniOf(n.Name), 10) == want },
		func(n seedbed.Network) bool { return n.Description == want && want != "" },
	} {
		if at := slices.IndexFunc(all, same); at >= 0 {
			return all[at], nil
		}
	}
	return seedbed.Network{}, refused(fiber.StatusNotFound, noNet)
}

// ownNet is net for a request that changes the network.
func (r *router) ownNet(ctx context.Context, c *fiber.Ctx) (seedbed.Network, error) {
	n, err := r.net(ctx, c)
	if _, absent := errors.AsType[*refusal](err); absent {
		return n, refused(fiber.StatusBadRequest, `ERROR: Could not find network "%s" in the cluster!`, server.Param(c, "net"))
	}
	if who := server.CallerOf(c); err == nil && seedbed.ProjectOf(n.Name) != who.Project {
		return n, refused(fiber.StatusForbidden, `The network "%s" belongs to the project %s.`, shownName(n), seedbed.ProjectOf(n.Name))
	}
	return n, err
}
