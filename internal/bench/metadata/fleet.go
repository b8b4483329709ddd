package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/jsimonetti/rtnetlink/v2/driver"
	"golang.org/x/sys/unix"

	"seedbed"
)

// space is a network namespace: a descriptor of it. It lives as long as that is open.
type space int

// unshared calls f on a thread of its own with a new namespace, which is
// returned and lives on.
func unshared(f func() error) (space, error) {
	type result struct {
		ns  space
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := newSpace()
		if err == nil && f != nil {
			err = f()
		}
		done <- result{ns, err}
	}()
	r := <-done
	return r.ns, r.err
}

// newSpace moves the calling thread into a new namespace.
func newSpace() (space, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, fmt.Errorf("make a network namespace: %w", err)
	}
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return space(fd), err
}

// in calls f on a thread of its own in the namespace. Processes that it starts are there, too.
func (ns space) in(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := unix.Setns(int(ns), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// attach makes a guest's namespace for each of the guests, joined to a bridge of
// the host by a veth pair whose host's end has the name of the guest's tap.
func attach(host space, bridge string, guests []seedbed.Guest) ([]*source, error) {
	var (
		rt     *rtnetlink.Conn
		master uint32
	)
	err := host.in(func() error {
		link, err := net.InterfaceByName(bridge)
		if err != nil {
			return err
		}
		master = uint32(link.Index)
		rt, err = rtnetlink.Dial(nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", bridge, err)
	}
	defer rt.Close()
	all := make([]*source, 0, len(guests))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		for _, g := range guests {
			ns, err := attachGuest(rt, master, g.NICs[0])
			if err != nil {
				done <- fmt.Errorf("guest %s: %w", g.Name, err)
				return
			}
			all = append(all, &source{guest: g, ns: ns})
		}
		done <- nil
	}()
	return all, <-done
}

// attachGuest moves the calling thread into the namespace that it makes.
func attachGuest(host *rtnetlink.Conn, master uint32, nic seedbed.GuestNIC) (space, error) {
	ns, err := newSpace()
	if err != nil {
		return -1, err
	}
	// A thousand guests that discover each other over IPv6 would only warm the room.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return -1, err
	}
	tap := nic.ID.Tap()
	err = host.Link.New(&rtnetlink.LinkMessage{
		Flags: unix.IFF_UP, Change: unix.IFF_UP,
		Attributes: &rtnetlink.LinkAttributes{Name: tap, Master: &master, Info: &rtnetlink.LinkInfo{
			Kind: "veth", Data: &driver.Veth{PeerInfo: &rtnetlink.LinkMessage{
				Attributes: &rtnetlink.LinkAttributes{Name: "eth0", Address: nic.MAC[:], NetNS: rtnetlink.NetNSForFD(uint32(ns))},
			}},
		}},
	})
	if err != nil {
		return -1, fmt.Errorf("make %s: %w", tap, err)
	}
	link, err := net.InterfaceByName("eth0")
	if err != nil {
		return -1, err
	}
	rt, err := rtnetlink.Dial(nil)
	if err != nil {
		return -1, err
	}
	defer rt.Close()
	if err := rt.Link.Set(&rtnetlink.LinkMessage{Index: uint32(link.Index), Flags: unix.IFF_UP, Change: unix.IFF_UP}); err != nil {
		return -1, fmt.Errorf("bring its interface up: %w", err)
	}
	addr := nic.Addr.AsSlice()
	if err := rt.Address.New(&rtnetlink.AddressMessage{
		Family: unix.AF_INET, PrefixLength: uint8(guestPrefix.Bits()), Index: uint32(link.Index),
		Attributes: &rtnetlink.AddressAttributes{Address: addr, Local: addr},
	}); err != nil {
		return -1, fmt.Errorf("give it %s: %w", nic.Addr, err)
	}
	return ns, rt.Route.Add(&rtnetlink.RouteMessage{
		Family: unix.AF_INET, DstLength: 32, Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_BOOT,
		Scope: unix.RT_SCOPE_LINK, Type: unix.RTN_UNICAST,
		Attributes: rtnetlink.RouteAttributes{Dst: net.IPv4(169, 254, 169, 254).To4(), OutIface: uint32(link.Index)},
	})
}
