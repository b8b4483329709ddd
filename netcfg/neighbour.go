package netcfg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// neighbours queries the kernel's ARP and ND tables, one entry at a time. A failed exchange may
// leave an answer in the socket, which is then replaced.
type neighbours struct {
	mu     sync.Mutex
	conn   *netlink.Conn
	closed bool
}

func openNeighbours() (*neighbours, error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, err
	}
	return &neighbours{conn: c}, nil
}

func (n *neighbours) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.conn == nil {
		return nil
	}
	c := n.conn
	n.conn = nil
	return c.Close()
}

// Neighbour returns the MAC that the kernel has for an address on the interface with that index. It
// sends one RTM_GETNEIGH, which takes some microseconds at any size of the table. It returns
// ErrNotFound if there is no entry with an answer.
func (m *Manager) Neighbour(ctx context.Context, ifindex int, ip netip.Addr) (seedbed.MAC, error) {
	if err := ctx.Err(); err != nil {
		return seedbed.MAC{}, err
	}
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || ifindex <= 0 {
		return seedbed.MAC{}, seedbed.Errorf(seedbed.ErrInvalid,
			"neighbour %s on interface %d: expected an address and an interface index", ip, ifindex)
	}
	msgs, err := m.neigh.ask(neighRequest(ifindex, ip))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return seedbed.MAC{}, noNeighbour(ifindex, ip)
	}
	if err != nil {
		return seedbed.MAC{}, fmt.Errorf("neighbour %s on interface %d: %w", ip, ifindex, err)
	}
	for _, msg := range msgs {
		if mac, ok := parseNeigh(msg.Data); ok {
			return mac, nil
		}
	}
	return seedbed.MAC{}, noNeighbour(ifindex, ip)
}

func noNeighbour(ifindex int, ip netip.Addr) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "no neighbour %s on interface %d", ip, ifindex)
}

func (n *neighbours) ask(m netlink.Message) ([]netlink.Message, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.New("the manager is closed")
	}
	if n.conn == nil {
		c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
		if err != nil {
			return nil, err
		}
		n.conn = c
	}
	msgs, err := n.conn.Execute(m)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
		n.conn.Close()
		n.conn = nil
	}
	return msgs, err
}

// neighRequest returns a request with struct ndmsg and NDA_DST (linux/neighbour.h).
func neighRequest(ifindex int, ip netip.Addr) netlink.Message {
	dst := ip.AsSlice()
	b := make([]byte, unix.SizeofNdMsg, unix.SizeofNdMsg+unix.SizeofRtAttr+len(dst))
	b[0] = unix.AF_INET
	if ip.Is6() {
		b[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(ifindex))
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(dst)))
	b = binary.NativeEndian.AppendUint16(b, unix.NDA_DST)
	b = append(b, dst...)
	return netlink.Message{Header: netlink.Header{Type: unix.RTM_GETNEIGH, Flags: netlink.Request}, Data: b}
}

// parseNeigh returns the MAC of an entry that is or was confirmed.
func parseNeigh(b []byte) (seedbed.MAC, bool) {
	if len(b) < unix.SizeofNdMsg {
		return seedbed.MAC{}, false
	}
	const usable = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT
	if binary.NativeEndian.Uint16(b[8:])&usable == 0 {
		return seedbed.MAC{}, false
	}
	ad, err := netlink.NewAttributeDecoder(b[unix.SizeofNdMsg:])
	if err != nil {
		return seedbed.MAC{}, false
	}
	for ad.Next() {
		if a := ad.Bytes(); ad.Type() == unix.NDA_LLADDR && len(a) == 6 {
			return seedbed.MAC(a), true
		}
	}
	return seedbed.MAC{}, false
}
