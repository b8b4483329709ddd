package metadata

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"seedbed/internal/ifbind"
)

// Listen opens the listener of one bridge: bound to it with SO_BINDTODEVICE, so that it accepts
// only what arrives there, and each accepted socket names its bridge. It needs CAP_NET_RAW, and
// CAP_NET_BIND_SERVICE for a port below 1024. A bridge that was deleted and recreated needs a new
// listener.
func Listen(ctx context.Context, bridge string, addr netip.AddrPort) (net.Listener, error) {
	network := "tcp4"
	if addr.Addr().Is6() {
		network = "tcp6"
	}
	// Keep-alive probes would cost four system calls per connection, a twelfth of its time. The
	// limits close idle connections anyway.
	lc := ifbind.ListenConfig(bridge)
	lc.KeepAlive = -1
	// A multipath connection could be joined from elsewhere after its caller was identified.
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(ctx, network, addr.String())
	if err != nil {
		return nil, fmt.Errorf("listen for guests on bridge %s: %w", bridge, err)
	}
	return ln, nil
}
