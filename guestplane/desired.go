package guestplane

import (
	"crypto/sha256"
	"encoding/hex"

	"seedbed"
	"seedbed/netcfg"
)

// desired returns the desired state of the node's network.
func desired(state seedbed.GuestPlaneState) netcfg.State {
	bridges := bridgeNames(state)
	return netcfg.State{Networks: state.Networks, Groups: state.Groups, Ports: func(yield func(netcfg.Port) bool) {
		for _, g := range state.Guests {
			for _, nic := range g.NICs {
				if !yield(port(nic, bridges)) {
					return
				}
			}
		}
	}}
}

// changes returns the taps of the ports that after removes, and the ports that it adds or changes.
// after.Changed must be relative to before.
func changes(before, after seedbed.GuestPlaneState) (gone []string, ports []netcfg.Port) {
	bridges := bridgeNames(after)
	for _, id := range after.Changed {
		if g, ok := before.Guest(id); ok {
			for _, nic := range g.NICs {
				gone = append(gone, nic.ID.Tap())
			}
		}
		if g, ok := after.Guest(id); ok {
			for _, nic := range g.NICs {
				ports = append(ports, port(nic, bridges))
			}
		}
	}
	return gone, ports
}

func port(nic seedbed.GuestNIC, bridges map[string]string) netcfg.Port {
	return netcfg.Port{Tap: nic.ID.Tap(), MAC: nic.MAC, Addr: nic.Addr, Mark: nic.ID.Mark(), Bridge: bridges[nic.Network],
		Groups: nic.Groups, Forwards: nic.Forwards, Floating: nic.Floating}
}

// bridgeNames returns the bridges by network.
func bridgeNames(state seedbed.GuestPlaneState) map[string]string {
	bridges := map[string]string{}
	for _, n := range state.Networks {
		bridges[n.Name] = n.Bridge
	}
	return bridges
}

func (p *Plane) options(state seedbed.GuestPlaneState) netcfg.Options {
	return netcfg.Options{MetadataPort: int(p.port), Connections: p.connections, Fragments: p.fragments,
		Installation: installation(state.TokenKey), Uplinks: p.uplinks}
}

// installation returns the mark of the installation on its bridges. The token key is the only thing
// in the feed that belongs to one installation and never changes. Eight digits of its hash reveal
// nothing about it.
func installation(tokenKey []byte) string {
	if len(tokenKey) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("seedbed installation\n"), tokenKey...))
	return hex.EncodeToString(sum[:4])
}
