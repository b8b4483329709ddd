package metadata

import "seedbed"

// Find returns the guest and the NIC that have a MAC on a bridge. DHCP uses it. What the record
// points to must not be changed.
func (d *Directory) Find(bridge string, mac seedbed.MAC) (seedbed.Guest, seedbed.GuestNIC, bool) {
	x := d.current.Load()
	p, mark, ok := x.portOf(bridge, mac)
	return x.find(p, mark, ok)
}

// FindMark is Find for the NIC on a bridge that has a mark.
func (d *Directory) FindMark(bridge string, mark uint32) (seedbed.Guest, seedbed.GuestNIC, bool) {
	x := d.current.Load()
	p, ok := x.port(mark)
	return x.find(p, mark, ok && x.bridge(p) == bridge)
}

func (x *index) find(p port, mark uint32, ok bool) (seedbed.Guest, seedbed.GuestNIC, bool) {
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
