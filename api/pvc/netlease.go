package pvc

import (
	"bytes"
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// leaseRow is an address of a network as PVC shows it. All are static: an instance keeps its address.
type leaseRow struct {
	Hostname  string `json:"hostname"`
	Addr      string `json:"ip4_address"`
	MAC       string `json:"mac_address"`
	Timestamp string `json:"timestamp"`
	secondary bool
}

// leaseRows returns the reservations of a network, if the caller manages it, and then the other addresses that instances
// have, each sorted by MAC address. The first address of a NIC comes before its secondary ones.
func (r *router) leaseRows(ctx context.Context, who server.Caller, n seedbed.Network) (all []leaseRow, err error) {
	leases, err := r.Store.NetworkLeases(ctx, who.Scope(), n.Name)
	if err != nil {
		return nil, err
	}
	byMAC := func(a, b leaseRow) int { return strings.Compare(a.MAC, b.MAC) }
	reserved := map[string]*leaseRow{}
	if seedbed.ProjectOf(n.Name) == who.Project {
		for _, v := range n.Reservations {
			if v.Addr.Is6() { // the rows have IPv4 addresses alone
				break
			}
			all = append(all, leaseRow{v.Description, v.Addr.String(), v.MAC.String(), "static", false})
		}
	}
	slices.SortFunc(all, byMAC)
	for i := range all {
		reserved[all[i].MAC+" "+all[i].Addr] = &all[i]
	}
	slices.SortStableFunc(leases, func(a, b seedbed.NetworkLease) int {
		switch {
		case a.MAC != b.MAC:
			return bytes.Compare(a.MAC[:], b.MAC[:])
		case a.Secondary == b.Secondary:
			return 0
		case b.Secondary:
			return -1
		}
		return 1
	})
	var others []leaseRow
	for _, l := range leases {
		if !l.Addr.IsValid() {
			continue
		}
		if row := reserved[l.MAC.String()+" "+l.Addr.String()]; row != nil {
			row.Hostname = l.Instance
		} else {
			others = append(others, leaseRow{l.Instance, l.Addr.String(), l.MAC.String(), "static", l.Secondary})
		}
	}
	return append(all, others...), nil
}

// netLeases answers the addresses of a network whose MAC addresses match the parameter limit, or the path.
func (r *router) netLeases(ctx context.Context, c *fiber.Ctx, f *fields) error {
	text := f.text("limit")
	if mac := server.Param(c, "mac"); mac != "" {
		text = regexp.QuoteMeta(mac)
	}
	if f.err != nil {
		return f.err
	}
	match, err := regexp.Compile("(?i)" + text)
	if err != nil || len(text) > maxFields {
		return refused(fiber.StatusBadRequest, "ERROR: The limit is not a regular expression.")
	}
	n, err := r.net(ctx, c)
	if err != nil {
		return refused(fiber.StatusBadRequest, `ERROR: Could not find network "%s" in the cluster!`, server.Param(c, "net"))
	}
	all, err := r.leaseRows(ctx, server.CallerOf(c), n)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(l leaseRow) bool { return !match.MatchString(l.MAC) })
	return rows(c, all, func(l leaseRow) leaseRow { return l }, "Lease not found.")
}

// addLease reserves an address for the MAC address in the path or in the parameter macaddress.
func (r *router) addLease(ctx context.Context, c *fiber.Ctx, f *fields) error {
	text := server.Param(c, "mac")
	if text == "" {
		text = f.must("macaddress", "A valid MAC address must be specified.")
	}
	address := f.must("ipaddress", "A valid IP address must be specified.")
	if f.err != nil {
		return f.err
	}
	n, err := r.ownNet(ctx, c)
	if err != nil {
		return err
	}
	v := seedbed.Reservation{Description: f.text("hostname")}
	if v.MAC, err = seedbed.ParseMAC(strings.ToLower(text)); err != nil {
		return refused(fiber.StatusBadRequest, "ERROR: MAC address '%s' is not valid! Always use ':' as a separator.", seedbed.Clip(text))
	}
	if v.Addr, err = netip.ParseAddr(address); err != nil || !v.Addr.Is4() {
		return refused(fiber.StatusBadRequest, "ERROR: IP address '%s' is not valid!", seedbed.Clip(address))
	}
	_, err = r.Store.ChangeNetwork(ctx, n.Name, func(n *seedbed.Network) error {
		if slices.ContainsFunc(n.Reservations, func(other seedbed.Reservation) bool { return other.MAC == v.MAC && other.Addr.Is4() }) {
			return refused(fiber.StatusBadRequest, "ERROR: A reservation with MAC '%s' already exists!", v.MAC)
		}
		return n.Reserve([]seedbed.Reservation{v}, nil)
	})
	if err != nil {
		return err
	}
	return say(c, "DHCP reservation '%s' added successfully!", v.MAC)
}

// removeLease removes the reservation with the MAC address, the host name or the address in the path.
func (r *router) removeLease(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	n, err := r.ownNet(ctx, c)
	if err != nil {
		return err
	}
	text := server.Param(c, "mac")
	all, err := r.leaseRows(ctx, server.CallerOf(c), n)
	if err != nil {
		return err
	}
	is := func(l leaseRow) bool { return strings.EqualFold(l.MAC, text) || l.Hostname == text || l.Addr == text }
	at := slices.IndexFunc(all, is)
	reserved := len(n.Reservations) - len(n.Reserved6())
	switch {
	case at < 0 || text == "":
		return refused(fiber.StatusBadRequest, "ERROR: No DHCP reservation or lease exists matching '%s'!", seedbed.Clip(text))
	case at >= reserved && all[at].secondary:
		return refused(fiber.StatusBadRequest, `ERROR: The address %s is a secondary one of VM %s: "seedbed address unassign" takes it away.`,
			all[at].Addr, all[at].Hostname)
	case at >= reserved:
		return refused(fiber.StatusBadRequest, "ERROR: The address %s is that of VM %s, which keeps it: remove the VM instead.",
			all[at].Addr, all[at].Hostname)
	}
	mac, err := seedbed.ParseMAC(all[at].MAC)
	if err != nil {
		return err
	}
	_, err = r.Store.ChangeNetwork(ctx, n.Name, func(n *seedbed.Network) error {
		stays := slices.DeleteFunc(slices.Clone(n.Reserved6()), func(v seedbed.Reservation) bool { return v.MAC != mac })
		return n.Reserve(stays, []seedbed.MAC{mac})
	})
	if err != nil {
		return err
	}
	return say(c, "DHCP static reservation '%s' removed successfully!", mac)
}
