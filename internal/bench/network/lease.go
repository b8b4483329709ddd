package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/dhcp"
)

const (
	// leaseClients is how many clients get an address, and leasesAtOnce how many of them ask at a time.
	leaseClients = 1000
	leasesAtOnce = 16
	// leaseWait is how long a client waits for an answer.
	leaseWait = 2 * time.Second
	// serverSide and clientSide are the ends of a pair of interfaces.
	serverSide, clientSide = "leases0", "leases1"
)

func leaseMAC(i int) seedbed.MAC { return seedbed.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)} }
func leaseAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, byte(1 + i>>8), byte(i)}) }

// lend answers DHCP for the clients until ctx ends (the measured process).
func lend(ctx context.Context) error {
	s := dhcp.Server{Lookup: func(mac seedbed.MAC) (dhcp.Offer, bool) {
		i := int(binary.BigEndian.Uint16(mac[4:]))
		return dhcp.Offer{Addr: leaseAddr(i), Prefix: lan.Prefix, Gateway: lan.Gateway, DNS: []netip.Addr{lan.Gateway}, Hostname: "guest"},
			mac == leaseMAC(i) && i < leaseClients
	}, Log: slog.New(slog.DiscardHandler)}
	return s.Serve(ctx, serverSide)
}

// dnsmasqLeases returns the command that answers the same clients.
func dnsmasqLeases(ctx context.Context, dir string) *exec.Cmd {
	args := []string{"--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--no-ping", "--user=root", "--pid-file=",
		"--interface=" + serverSide, "--bind-interfaces", "--log-facility=/dev/null", "--quiet-dhcp", "--dhcp-authoritative",
		"--dhcp-leasefile=" + filepath.Join(dir, "leases"), "--dhcp-lease-max=2000", "--dhcp-range=10.77.0.0,static,255.255.0.0,1h"}
	for i := range leaseClients {
		args = append(args, fmt.Sprintf("--dhcp-host=%s,%s", leaseMAC(i), leaseAddr(i)))
	}
	return exec.CommandContext(ctx, "dnsmasq", args...)
}

// leases says how many clients a second one of the two gives an address, and how many milliseconds the slowest hundredth
// of them waits at least, in a namespace of its own.
func leases(ctx context.Context, own bool, out io.Writer) error {
	dir, err := os.MkdirTemp("", "seedbed-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, args := range [][]string{
		{"link", "add", serverSide, "type", "veth", "peer", "name", clientSide},
		{"addr", "add", lan.Gateway.String() + "/16", "dev", serverSide},
		{"link", "set", serverSide, "up"}, {"link", "set", clientSide, "up"}, {"link", "set", "lo", "up"},
	} {
		if said, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, said)
		}
	}
	cmd := dnsmasqLeases(ctx, dir)
	if own {
		cmd = exec.CommandContext(ctx, "/proc/self/exe", "-part", "lender")
	}
	return beside(cmd, func() error {
		c, err := newLeaseClients()
		if err != nil {
			return err
		}
		defer c.close()
		if err := c.await(); err != nil {
			return err
		}
		waits, took, err := c.all()
		if err != nil {
			return err
		}
		slices.Sort(waits)
		_, err = fmt.Fprintln(out, leaseClients/took.Seconds(), milliseconds(waits[len(waits)*99/100]))
		return err
	})
}

// leaseClientsOn are all clients, on one interface.
type leaseClientsOn struct {
	fd    int
	index int
	wait  map[seedbed.MAC]chan *dhcpv4.DHCPv4
}

func newLeaseClients() (*leaseClientsOn, error) {
	link, err := net.InterfaceByName(clientSide)
	if err != nil {
		return nil, err
	}
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return nil, err
	}
	c := &leaseClientsOn{fd: fd, index: link.Index, wait: map[seedbed.MAC]chan *dhcpv4.DHCPv4{}}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	for i := range leaseClients {
		c.wait[leaseMAC(i)] = make(chan *dhcpv4.DHCPv4, 1)
	}
	go c.receive()
	return c, nil
}

func (c *leaseClientsOn) close() { _ = unix.Shutdown(c.fd, unix.SHUT_RDWR) } // and the process ends

// receive hands each answer to its client.
func (c *leaseClientsOn) receive() {
	buf := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(c.fd, buf, 0)
		if err != nil {
			return
		}
		const payload = 14 + 20 + 8
		if n < payload || buf[12] != 8 || buf[13] != 0 || buf[23] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(buf[36:]) != 68 {
			continue
		}
		m, err := dhcpv4.FromBytes(buf[payload:n])
		if err != nil || len(m.ClientHWAddr) != 6 {
			continue
		}
		if to := c.wait[seedbed.MAC(m.ClientHWAddr)]; to != nil {
			select {
			case to <- m:
			default: // an answer that nobody waits for
			}
		}
	}
}

// send sends a message as a client without an address does.
func (c *leaseClientsOn) send(mac seedbed.MAC, m *dhcpv4.DHCPv4) error {
	payload := m.ToBytes()
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac[:]...)
	b = append(b, 8, 0)
	ip := make([]byte, 28)
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(28+len(payload)))
	copy(ip[16:], []byte{255, 255, 255, 255})
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(ip[20:], 68)
	binary.BigEndian.PutUint16(ip[22:], 67)
	binary.BigEndian.PutUint16(ip[24:], uint16(8+len(payload))) // the checksum may be left out (RFC 768)
	b = append(append(b, ip...), payload...)
	return unix.Sendto(c.fd, b, 0, &unix.SockaddrLinklayer{Ifindex: c.index})
}

// await waits until the last client is offered an address, so that the server runs.
func (c *leaseClientsOn) await() error {
	err := errors.New("not asked yet")
	for range 50 {
		if _, err = c.lease(leaseClients-1, 100*time.Millisecond); err == nil {
			return nil
		}
	}
	return err
}

// all gives every client its address, and returns how long each and all together took.
func (c *leaseClientsOn) all() (waits []time.Duration, took time.Duration, err error) {
	waits = make([]time.Duration, leaseClients)
	errs := make([]error, leasesAtOnce)
	var group sync.WaitGroup
	began := time.Now()
	for w := range leasesAtOnce {
		group.Go(func() {
			for i := w; i < leaseClients && errs[w] == nil; i += leasesAtOnce {
				waits[i], errs[w] = c.lease(i, leaseWait)
			}
		})
	}
	group.Wait()
	return waits, time.Since(began), errors.Join(errs...)
}

// lease takes a client from DISCOVER to ACK.
func (c *leaseClientsOn) lease(i int, most time.Duration) (time.Duration, error) {
	mac := leaseMAC(i)
	began := time.Now()
	discover, err := dhcpv4.NewDiscovery(mac[:])
	if err != nil {
		return 0, err
	}
	offer, err := c.exchange(mac, discover, dhcpv4.MessageTypeOffer, most)
	if err != nil {
		return 0, fmt.Errorf("client %d, DISCOVER: %w", i, err)
	}
	request, err := dhcpv4.NewRequestFromOffer(offer)
	if err != nil {
		return 0, err
	}
	ack, err := c.exchange(mac, request, dhcpv4.MessageTypeAck, most)
	if err != nil {
		return 0, fmt.Errorf("client %d, REQUEST: %w", i, err)
	}
	if got := ack.YourIPAddr.String(); got != leaseAddr(i).String() {
		return 0, fmt.Errorf("client %d got %s", i, got)
	}
	return time.Since(began), nil
}

func (c *leaseClientsOn) exchange(mac seedbed.MAC, m *dhcpv4.DHCPv4, want dhcpv4.MessageType, most time.Duration) (*dhcpv4.DHCPv4, error) {
	if err := c.send(mac, m); err != nil {
		return nil, err
	}
	end := time.After(most)
	for {
		select {
		case got := <-c.wait[mac]:
			if got.TransactionID == m.TransactionID && got.MessageType() == want {
				return got, nil
			}
		case <-end:
			return nil, errors.New("an answer did not come")
		}
	}
}
