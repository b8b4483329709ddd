package pvc

import (
	"cmp"
	"context"
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
	MTU         int      `json:"mtu"`
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
	// ethernetMTU is the MTU of bridges that are told no other.
	ethernetMTU = 1500
)

func netInfoOf(n seedbed.Network) netInfo {
	i := netInfo{VNI: vniOf(n.Name), Description: n.Name, Type: "managed", MTU: cmp.Or(n.MTU, ethernetMTU), Domain: cmp.Or(n.Domain, none),
		NameServers: server.Each(n.DNS, netip.Addr.String), IP6: netIP6{none, none, "False"},
		IP4: netIP4{n.Prefix.String(), n.Gateway.String(), "False", none, none}}
	if n.Kind == seedbed.NetworkIsolated {
		i.IP4.Gateway = none
	}
	if n.DHCP {
		last := n.Range.Last
		if !last.IsValid() {
			last = seedbed.LastAddr(n.Prefix).Prev()
		}
		i.IP4.DHCP, i.IP4.Start, i.IP4.End = "True", n.NextAddr(netip.Addr{}).String(), last.String()
	}
	return i
}

func (r *router) netRoutes(p string, get routing) {
	get(seedbed.ActionInstallationRead, p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		m := f.match()
		if f.err != nil {
			return f.err
		}
		all, err := r.Store.Networks(ctx)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(n seedbed.Network) bool {
			return !m.Matches(n.Name) && !m.Matches(strconv.FormatInt(vniOf(n.Name), 10))
		})
		return rows(c, all, netInfoOf, noNet)
	})
	get(seedbed.ActionInstallationRead, p+"/:net", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		n, err := r.net(ctx, c)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, []netInfo{netInfoOf(n)})
	})
}

// net returns the network that the path names, by name or number.
func (r *router) net(ctx context.Context, c *fiber.Ctx) (seedbed.Network, error) {
	all, err := r.Store.Networks(ctx)
	if err != nil {
		return seedbed.Network{}, err
	}
	want := strings.TrimSpace(server.Param(c, "net"))
	for _, same := range []func(seedbed.Network) bool{
		func(n seedbed.Network) bool { return n.Name == want },
		func(n seedbed.Network) bool { return strconv.FormatInt(vniOf(n.Name), 10) == want },
	} {
		if at := slices.IndexFunc(all, same); at >= 0 {
			return all[at], nil
		}
	}
	return seedbed.Network{}, refused(fiber.StatusNotFound, noNet)
}
