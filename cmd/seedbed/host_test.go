package main

import (
	"context"

	"seedbed"
	"seedbed/store"
)

// console is the worker of hv1, without domains.
type console struct{ db *store.DB }

func (console) Console(context.Context, string, seedbed.InstanceID, seedbed.Bytes) ([]byte, error) {
	return []byte("boot\r\nlogin: \x1b[2J\r\nhello\r\n"), nil
}

// DomainXML returns what libvirt would know of the domains of hv1: their names and NICs.
func (c console) DomainXML(ctx context.Context, of map[string][]seedbed.InstanceID) map[seedbed.InstanceID]string {
	all := map[seedbed.InstanceID]string{}
	for _, id := range of["hv1"] {
		i, err := c.db.Instance(ctx, id)
		if err != nil {
			continue
		}
		doc := "<domain type='kvm'><name>" + i.Name + "</name><uuid>" + string(id) + "</uuid><devices><emulator>/usr/bin/qemu</emulator>"
		for _, n := range i.NICs {
			network, err := c.db.Network(ctx, n.Network)
			if err != nil {
				continue
			}
			doc += "<interface type='bridge'><mac address='" + n.MAC.String() + "'/><source bridge='" + network.Bridge +
				"'/><model type='virtio'/></interface>"
		}
		all[id] = doc + "</devices></domain>"
	}
	return all
}

// probe answers for hosts of bridged networks: one has each address that ends in 66.
func probe(_ context.Context, _ string, asked []seedbed.AddressProbe) (p seedbed.AddressesProbed, err error) {
	for _, a := range asked {
		for _, addr := range a.Addrs {
			if addr.Is4() && addr.As4()[3] == 66 {
				p.Used = append(p.Used, seedbed.AddressUse{Bridge: a.Bridge, Addr: addr, MAC: seedbed.MAC{2, 0, 0, 0, 0, 66}})
			}
		}
	}
	return p, nil
}
