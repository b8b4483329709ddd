//go:build libvirt

package libvirt

import (
	"context"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed/internal/cgate"
)

// newConns makes the pool of connections for calls (docs/decisions/0002-libvirt-connections.md).
func newConns(uri string) *connPool[*lv.Connect] {
	return &connPool[*lv.Connect]{
		open:      func() (*lv.Connect, error) { return dial(uri) },
		alive:     answers,
		closeConn: func(conn *lv.Connect) { conn.Close() },
	}
}

// answers reports whether libvirtd answers on the connection, with the cheapest call that reaches
// it.
func answers(conn *lv.Connect) bool {
	if alive, err := conn.IsAlive(); err != nil || !alive {
		return false
	}
	_, err := conn.GetLibVersion()
	return err == nil
}

// closeIdleConns closes idle connections until ctx ends.
func (d *Driver) closeIdleConns(ctx context.Context) {
	tick := time.NewTicker(idleTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// Closing a connection is a call to libvirtd too. If it does not answer, the next calls
		// report that.
		_, _ = cgate.Through(ctx, d.gate, "close idle connections", "", func(context.Context) (struct{}, error) {
			d.conns.sweep()
			return struct{}{}, nil
		})
	}
}
