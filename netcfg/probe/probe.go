// Package probe finds out which addresses other hosts use on the network that a bridge reaches by its uplink: by ARP
// (RFC 5227) and, for IPv6, by neighbour solicitations (RFC 4862 5.4). Both are sent from no address, so that no host takes
// them for a use of the address.
package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg"
)

// Each address is asked for several times, since a request or its answer may be lost. Hosts answer at once (RFC 5227 1.1
// has them wait for up to a few seconds only where many start at the same time).
const (
	requests = 3
	interval = 250 * time.Millisecond
)

// Used asks for all addresses at the same time, which takes less than a second. It returns those that a host answers for, in
// the order of the requests, and the bridges by which nobody could be asked, such as one whose uplink is gone. A host that has the
// MAC address of the request is one, too. It returns the error of a context that ends.
func Used(ctx context.Context, asked []seedbed.AddressProbe) (seedbed.AddressesProbed, error) {
	return used(ctx, asked, netcfg.UplinkPort, nil)
}

// Held is Used for addresses that the node has itself, on interfaces that are named in place of bridges. An answer of another interface
// of the node is left out.
func Held(ctx context.Context, asked []seedbed.AddressProbe) (seedbed.AddressesProbed, error) {
	own, err := net.Interfaces()
	if err != nil {
		return seedbed.AddressesProbed{}, err
	}
	var macs []seedbed.MAC
	for _, i := range own {
		if len(i.HardwareAddr) == len(seedbed.MAC{}) {
			macs = append(macs, seedbed.MAC(i.HardwareAddr))
		}
	}
	return used(ctx, asked, func(name string) (int, error) {
		at := slices.IndexFunc(own, func(i net.Interface) bool { return i.Name == name })
		if at < 0 || own[at].Flags&net.FlagUp == 0 {
			return 0, seedbed.Errorf(seedbed.ErrNotFound, "interface %s is not up", name)
		}
		return own[at].Index, nil
	}, macs)
}

// used is Used by the ports that port returns by the names in the requests. Hosts with the MAC addresses in own are left out.
func used(
	ctx context.Context, asked []seedbed.AddressProbe, port func(name string) (int, error), own []seedbed.MAC,
) (seedbed.AddressesProbed, error) {
	found, failed := make([][]seedbed.AddressUse, len(asked)), make([]error, len(asked))
	var group sync.WaitGroup
	for i, a := range asked {
		group.Go(func() {
			on, err := port(a.Bridge)
			if err == nil {
				found[i], err = usedOn(ctx, a, on, own)
			}
			failed[i] = err
		})
	}
	group.Wait()
	all := seedbed.AddressesProbed{Used: slices.Concat(found...)}
	for i, err := range failed {
		if err != nil {
			if all.Unasked == nil {
				all.Unasked = map[string]string{}
			}
			all.Unasked[asked[i].Bridge] = err.Error()
		}
	}
	return all, ctx.Err()
}

// usedOn asks for the addresses of a request by the interface with an index. Hosts with the MAC addresses in own are left out.
func usedOn(ctx context.Context, a seedbed.AddressProbe, port int, own []seedbed.MAC) ([]seedbed.AddressUse, error) {
	var frames [][]byte
	for _, addr := range a.Addrs {
		b, err := request(a.MAC, addr)
		if err != nil {
			return nil, err
		}
		frames = append(frames, b)
	}
	s, err := listen(port)
	if err != nil {
		return nil, err
	}
	defer s.close()
	users := map[netip.Addr]seedbed.MAC{}
	for range requests {
		for _, b := range frames {
			if err := s.send(b); err != nil {
				return nil, err
			}
		}
		err := s.receive(ctx, interval, func(frame []byte) bool {
			addr, mac, ok := answer(frame)
			if _, known := users[addr]; ok && !known && slices.Contains(a.Addrs, addr) && !slices.Contains(own, mac) {
				users[addr] = mac
			}
			return len(users) < len(a.Addrs)
		})
		if err != nil {
			return nil, err
		}
	}
	var used []seedbed.AddressUse
	for _, addr := range a.Addrs {
		if mac, ok := users[addr]; ok {
			used = append(used, seedbed.AddressUse{Bridge: a.Bridge, Addr: addr, MAC: mac})
		}
	}
	return used, nil
}

// socket sends frames by one port of a bridge, and gets those that arrive there before the bridge does.
type socket struct {
	fd, port int
	buf      []byte
}

// longest is more than the length of any frame of interest.
const longest = 2048

func listen(port int) (*socket, error) {
	filter, err := filter()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing until it is bound
	if err != nil {
		return nil, err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	if err == nil {
		// Of a port of a bridge, only a socket for all protocols gets what arrives.
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: port})
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &socket{fd, port, make([]byte, longest)}, nil
}

func (s *socket) close() { unix.Close(s.fd) }

func (s *socket) send(b []byte) error {
	err := unix.Sendto(s.fd, b, 0, &unix.SockaddrLinklayer{Ifindex: s.port})
	if errors.Is(err, unix.ENOBUFS) { // the port is busy, and is asked again
		return nil
	}
	return err
}

// receive calls f for each frame that arrives during d, until f returns false.
func (s *socket) receive(ctx context.Context, d time.Duration, f func([]byte) bool) error {
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if err := ctx.Err(); err != nil || left <= 0 {
			return err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n <= 0 {
			continue
		}
		n, from, err := unix.Recvfrom(s.fd, s.buf, unix.MSG_DONTWAIT)
		if l, ok := from.(*unix.SockaddrLinklayer); err != nil || !ok || l.Pkttype == unix.PACKET_OUTGOING {
			if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				return err
			}
			continue
		}
		if !f(s.buf[:n]) {
			return nil
		}
	}
}
