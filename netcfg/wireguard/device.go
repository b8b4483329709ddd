package wireguard

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"seedbed"
)

// Peers are the nodes at the other ends of the tunnels: where each gets packets, by its key.
type Peers = map[seedbed.TunnelKey]netip.AddrPort

// Configure gives an interface of WireGuard the key, the port and the peers, and no others. A peer sends from the address that
// follows from its key, and from no other. before are the peers that the interface was given last, or nil if that is not
// known. The kernel follows a peer that answers from elsewhere: one whose place did not change since before is not told again, nor,
// if before is not known, one whose session lives. What is correct is not changed.
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
			if known = endpoint(p); known.IsValid() && time.Since(p.LastHandshakeTime) < sessionTime {
				known = at
			}
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

// sessionTime is how long a session of WireGuard lives (REJECT_AFTER_TIME).
const sessionTime = 3 * time.Minute

// Holder returns the name of the interface of WireGuard, other than one, that has a UDP port of the node; the empty string if none has.
func Holder(port uint16, other string) (string, error) {
	client, err := wgctrl.New()
	if err != nil {
		return "", fmt.Errorf("open WireGuard: %w", err)
	}
	defer client.Close()
	all, err := client.Devices()
	if err != nil {
		return "", fmt.Errorf("list interfaces of WireGuard: %w", err)
	}
	for _, d := range all {
		if d.ListenPort == int(port) && d.Name != other {
			return d.Name, nil
		}
	}
	return "", nil
}

func endpoint(p wgtypes.Peer) netip.AddrPort {
	if p.Endpoint == nil {
		return netip.AddrPort{}
	}
	at := p.Endpoint.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
