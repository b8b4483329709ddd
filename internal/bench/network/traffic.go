package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg"
)

// groupMembers is how many guests are members of a group when another joins it.
const groupMembers = 1000

var (
	lan = seedbed.Network{Name: "lan", Kind: seedbed.NetworkIsolated, Bridge: "sb-lan", MAC: seedbed.MAC{2, 1, 0, 0, 0, 1},
		Prefix: netip.MustParsePrefix("10.77.0.0/16"), Gateway: netip.MustParseAddr("10.77.0.1")}
	app = seedbed.SecurityGroup{Name: "app", Rules: []seedbed.SecurityRule{
		{Direction: seedbed.DirectionIn, Protocol: "tcp", Ports: "5001", Group: "app"},
		{Direction: seedbed.DirectionIn, Protocol: "tcp", Ports: "22", Prefix: netip.MustParsePrefix("10.0.0.0/8")},
		{Direction: seedbed.DirectionOut, Protocol: "any"},
	}}
	db = seedbed.SecurityGroup{Name: "db", Rules: []seedbed.SecurityRule{{Direction: seedbed.DirectionIn, Protocol: "tcp", Group: "app"}}}
)

// member returns a guest's port in the group app; half of those of a node are in db as well.
func member(i int) netcfg.Port {
	id := seedbed.NICID(i)
	return netcfg.Port{Tap: id.Tap(), MAC: seedbed.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, Mark: id.Mark(), Bridge: lan.Bridge,
		Addr: netip.AddrFrom4([4]byte{10, 77, byte(i >> 8), byte(i)}), Groups: []string{"app", "db"}[:1+i%2]}
}

// join says how many milliseconds it takes until another guest is in a group of many that rules name.
func join(ctx context.Context, out io.Writer) error {
	m, err := opened(ctx, 2, groupMembers)
	if err != nil {
		return err
	}
	defer m.Close()
	began := time.Now()
	if err := m.Change(ctx, netcfg.Diff{Ports: []netcfg.Port{member(groupMembers + 2)}}); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, milliseconds(time.Since(began)))
	return err
}

// opened applies the network lan with some guests, whose ports are numbered from first on.
func opened(ctx context.Context, first, guests int) (*netcfg.Manager, error) {
	if err := remount(); err != nil {
		return nil, err
	}
	m, err := netcfg.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	var ports []netcfg.Port
	for i := range guests {
		ports = append(ports, member(first+i))
	}
	s := netcfg.State{Networks: []seedbed.Network{lan}, Groups: []seedbed.SecurityGroup{app, db}, Ports: slices.Values(ports)}
	return m, m.Apply(ctx, s, netcfg.Options{})
}

// transfer says how many bytes a second two guests on a bridge transfer by TCP: with the filters and in groups, or on a
// bridge that ip makes.
func transfer(ctx context.Context, filtered bool, out io.Writer) error {
	lines := []string{"mount -t tmpfs none /run", "mkdir /run/netns"}
	if filtered {
		m, err := opened(ctx, 2, 2)
		if err != nil {
			return err
		}
		defer m.Close()
	} else {
		if err := remount(); err != nil {
			return err
		}
		lines = append(lines, "ip link add "+lan.Bridge+" type bridge", "ip link set "+lan.Bridge+" up")
	}
	for i := 2; i <= 3; i++ {
		p := member(i)
		lines = append(lines, fmt.Sprintf("ip netns add g%d", i),
			fmt.Sprintf("ip link add %s type veth peer name eth0 address %s netns g%d", p.Tap, p.MAC, i),
			fmt.Sprintf("ip link set %s master %s up", p.Tap, lan.Bridge),
			fmt.Sprintf("ip -n g%d addr add %s/16 dev eth0", i, p.Addr), fmt.Sprintf("ip -n g%d link set eth0 up", i))
	}
	if said, err := exec.CommandContext(ctx, "/bin/sh", "-ec", strings.Join(lines, "\n")).CombinedOutput(); err != nil {
		return fmt.Errorf("make guests: %w: %s", err, said)
	}
	var l net.Listener
	var c net.Conn
	err := within("g2", func() (err error) { l, err = net.Listen("tcp4", ":5001"); return err })
	if err != nil {
		return err
	}
	defer l.Close()
	err = within("g3", func() (err error) {
		c, err = net.DialTimeout("tcp4", member(2).Addr.String()+":5001", 10*time.Second)
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	received, err := l.Accept()
	if err != nil {
		return err
	}
	const lasting = 2 * time.Second
	began := time.Now()
	err = errors.Join(c.SetDeadline(began.Add(lasting)), received.SetDeadline(began.Add(lasting)))
	if err != nil {
		return err
	}
	go func() { // until the deadline
		block := make([]byte, 1<<16)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}()
	n, err := io.Copy(io.Discard, received)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the transfer ended: %w", err)
	}
	_, err = fmt.Fprintln(out, float64(n)/time.Since(began).Seconds())
	return err
}

// within runs fn in a named network namespace.
func within(namespace string, fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}
