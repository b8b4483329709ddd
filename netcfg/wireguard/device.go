package wireguard

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"seedbed"
)

// Peers are the nodes at the other ends of the tunnels: where each gets packets, by its key.
type Peers = map[seedbed.TunnelKey]netip.AddrPort

// Configure gives an interface of WireGuard the key, the port and the peers, and no others. A peer sends from the address that
// follows from its key, and from no other. before are the peers that the interface was given last, or nil if that is not
// known: only a peer whose place differs from that is told to the kernel, which follows a peer that answers from elsewhere. What
// is correct is not changed.
func (i Identity) Configure(iface string, port uint16, peers, before Peers) error {
	if i.missing != nil {
		return i.missing
	}
	client, err := wgctrl.New()
	if err != nil {
		return fmt.Errorf("open WireGuard: %w", err)
	}
	defer client.Close()
	is, err := client.Device(iface)
	if err != nil {
		return fmt.Errorf("read %s: %w", iface, err)
	}
	if change, some := i.change(is, port, peers, before); some {
		if err := client.ConfigureDevice(iface, change); err != nil {
			return fmt.Errorf("configure %s: %w", iface, err)
		}
	}
	return nil
}

// change returns what a device lacks, and whether it lacks anything.
func (i Identity) change(is *wgtypes.Device, port uint16, peers, before Peers) (c wgtypes.Config, some bool) {
	if is.PrivateKey != i.private {
		c.PrivateKey, some = &i.private, true
	}
	if want := int(port); is.ListenPort != want {
		c.ListenPort, some = &want, true
	}
	has := map[seedbed.TunnelKey]wgtypes.Peer{}
	for _, p := range is.Peers {
		key := seedbed.TunnelKey(p.PublicKey)
		if has[key] = p; !peers[key].IsValid() {
			c.Peers = append(c.Peers, wgtypes.PeerConfig{PublicKey: p.PublicKey, Remove: true})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(peers), func(a, b seedbed.TunnelKey) int { return slices.Compare(a[:], b[:]) }) {
		at := peers[key]
		p, there := has[key]
		known := before[key]
		if before == nil {
			known = endpoint(p)
		}
		allowed := net.IPNet{IP: key.Addr().AsSlice(), Mask: net.CIDRMask(128, 128)}
		if there && known == at && len(p.AllowedIPs) == 1 && p.AllowedIPs[0].String() == allowed.String() {
			continue
		}
		c.Peers = append(c.Peers, wgtypes.PeerConfig{PublicKey: wgtypes.Key(key), Endpoint: net.UDPAddrFromAddrPort(at),
			ReplaceAllowedIPs: true, AllowedIPs: []net.IPNet{allowed}})
	}
	return c, some || len(c.Peers) > 0
}

func endpoint(p wgtypes.Peer) netip.AddrPort {
	if p.Endpoint == nil {
		return netip.AddrPort{}
	}
	at := p.Endpoint.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
