package metadata

import "seedbed"

// Find is the guest, and its NIC, that has a MAC on a bridge: what DHCP asks.
// The record must not be changed.
func (d *Directory) Find(bridge string, mac seedbed.MAC) (seedbed.Guest, seedbed.GuestNIC, bool) {
	p, ok := d.current.Load().macs[portKey{bridge, mac}]
	if !ok {
		return seedbed.Guest{}, seedbed.GuestNIC{}, false
	}
	return p.entry.record.guest, p.nic, true
}
