package cluster

import (
	"net/netip"
	"testing"

	"seedbed"
)

// TestOverlayAddress: a node that encrypts and does not know its key is not shown with another.
func TestOverlayAddress(t *testing.T) {
	t.Parallel()
	r := seedbed.NodeReport{Address: netip.MustParseAddr("192.0.2.1"), AddressMTU: 1500}
	for want, tunnel := range map[string]seedbed.Tunnel{
		"192.0.2.1, MTU 1500": {},
		"192.0.2.1, MTU 1500, encrypted: UDP port 51820, its key is not known": {Port: 51820},
		"192.0.2.1, MTU 1500, encrypted: UDP port 51820, key AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=": {
			Key: seedbed.TunnelKey{1}, Port: 51820},
	} {
		r.Tunnel = tunnel
		if got := overlayAddress(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
