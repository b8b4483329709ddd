package libvirt

import (
	"fmt"
	"net"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// macsOf returns the MAC addresses in a domain's document.
func macsOf(doc string) (macs []seedbed.MAC, err error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return nil, fmt.Errorf("read the domain's XML: %w", err)
	}
	if d.Devices == nil {
		return nil, nil
	}
	for _, nic := range d.Devices.Interfaces {
		if nic.MAC == nil {
			continue
		}
		if mac, err := seedbed.ParseMAC(nic.MAC.Address); err == nil { // otherwise no instance could have it
			macs = append(macs, mac)
		}
	}
	return macs, nil
}

// sharedTap returns a name of an interface that both documents of domains have; empty if there is none.
func sharedTap(one, other string) string {
	all := tapsOf(other)
	for _, tap := range tapsOf(one) {
		if slices.Contains(all, tap) {
			return tap
		}
	}
	return ""
}

// tapsOf returns the names that a domain's document gives its interfaces on the host.
func tapsOf(doc string) (taps []string) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil || d.Devices == nil {
		return nil
	}
	for _, nic := range d.Devices.Interfaces {
		if nic.Target != nil && nic.Target.Dev != "" {
			taps = append(taps, nic.Target.Dev)
		}
	}
	return taps
}

// alive are the states of a neighbour that has answered recently, or was set by hand (NUD_* in
// linux/neighbour.h).
const alive = unix.NUD_REACHABLE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT

// neighbours returns the MAC addresses that the host knows of on its networks, from ARP and
// neighbour discovery.
func neighbours() (taken []seedbed.TakenMAC, err error) {
	conn, err := rtnetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	defer conn.Close()
	all, err := conn.Neigh.List()
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	for _, n := range all {
		if n.State&alive == 0 || n.Attributes == nil || len(n.Attributes.LLAddress) != len(seedbed.MAC{}) {
			continue
		}
		mac := seedbed.MAC(n.Attributes.LLAddress)
		if mac == (seedbed.MAC{}) {
			continue
		}
		where := fmt.Sprint("interface ", n.Index)
		if link, err := net.InterfaceByIndex(int(n.Index)); err == nil {
			where = link.Name
		}
		taken = append(taken, seedbed.TakenMAC{MAC: mac, By: fmt.Sprintf("neighbour %s on %s", n.Attributes.Address, where)})
	}
	return taken, nil
}
