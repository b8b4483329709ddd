package metadata

import "seedbed"

// Find returns the guest and the NIC that have a MAC on a bridge. DHCP uses it. What the record
// points to must not be changed.
func (d *Directory) Find(bridge string, mac seedbed.MAC) (seedbed.Guest, seedbed.GuestNIC, bool) {
	x := d.current.Load()
	p, mark, ok := x.portOf(bridge, mac)
	if !ok {
		return seedbed.Guest{}, seedbed.GuestNIC{}, false
	}
	g, ok := x.state.Guest(p.instance)
	if !ok {
		return seedbed.Guest{}, seedbed.GuestNIC{}, false
	}
	for _, nic := range g.NICs {
		if nic.ID.Mark() == mark {
			return g, nic, true
		}
	}
	return seedbed.Guest{}, seedbed.GuestNIC{}, false
}
