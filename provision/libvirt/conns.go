//go:build libvirt

package libvirt

import (
	"context"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed/internal/cgate"
)

// newConns are the connections of calls (docs/decisions/0002-libvirt-connections.md).
func newConns(uri string) *shelf[*lv.Connect] {
	return &shelf[*lv.Connect]{
		open:  func() (*lv.Connect, error) { return dial(uri) },
		sound: answers,
		end:   func(conn *lv.Connect) { conn.Close() },
	}
}

// answers tells whether libvirtd answers on the connection, by the cheapest question that goes there.
func answers(conn *lv.Connect) bool {
	if alive, err := conn.IsAlive(); err != nil || !alive {
		return false
	}
	_, err := conn.GetLibVersion()
	return err == nil
}

// tidy closes connections that nobody has used for a while, until ctx ends.
func (d *Driver) tidy(ctx context.Context) {
	tick := time.NewTicker(restTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// The end of one is a call to libvirtd, too. When that does not answer, those
		// who ask for something are told.
		_, _ = cgate.Through(ctx, d.gate, "close idle connections", "", func(context.Context) (struct{}, error) {
			d.conns.sweep()
			return struct{}{}, nil
		})
	}
}
