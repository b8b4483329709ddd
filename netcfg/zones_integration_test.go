//go:build integration

package netcfg

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// hear returns what arrives at a socket, up to a last message.
func hear(t *testing.T, c net.PacketConn, last string) []string {
	t.Helper()
	var all []string
	buf := make([]byte, 100)
	c.SetReadDeadline(time.Now().Add(patience))
	for {
		n, _, err := c.ReadFrom(buf)
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		if string(buf[:n]) == last {
			return all
		}
		all = append(all, string(buf[:n]))
	}
}

// answerOne answers the next datagram of a socket.
func answerOne(t *testing.T, c net.PacketConn, text string) {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	_, from, err := c.ReadFrom(make([]byte, 100))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WriteTo([]byte(text), from); err != nil {
		t.Fatal(err)
	}
}

// arrives waits for a frame with a text.
func arrives(t *testing.T, fd int, text string) {
	t.Helper()
	buf := make([]byte, 2048)
	until(t, text+" arrives", func() bool {
		n, err := unix.Read(fd, buf)
		return err == nil && bytes.Contains(buf[:n], []byte(text))
	})
}

// settle waits until the node has handled what a guest sent: it answers the guest's ARP after that.
func settle(t *testing.T, fd int, mac seedbed.MAC) {
	t.Helper()
	request := ether(broadcast, mac, unix.ETH_P_ARP, arp(1, mac, ip1, gw))
	buf := make([]byte, 2048)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if _, err := unix.Write(fd, request); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := unix.Read(fd, buf)
			if err != nil {
				break // ask again
			}
			if n >= 42 && bytes.Equal(buf[12:14], be16(unix.ETH_P_ARP)) && buf[21] == 2 && bytes.Equal(buf[28:32], gw.AsSlice()) {
				return
			}
		}
	}
	t.Fatal("the node does not answer ARP")
}

// TestConnectionsOfEqualNetworks: a guest's packets are not taken for those of a guest with the same
// address in another network, whether that one's connection leaves by the NAT or ends at the node.
func TestConnectionsOfEqualNetworks(t *testing.T) {
	for name, natFirst := range map[string]bool{"NAT on the first": true, "NAT on the second": false} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			s := state0()
			other := lab()
			other.Prefix, other.Gateway = s.Networks[0].Prefix, s.Networks[0].Gateway
			s.Networks[0].NAT, other.NAT = natFirst, !natFirst
			s.Networks = append(s.Networks, other)
			mac3 := seedbed.MAC{0x52, 0x54, 0, 0, 0, 3}
			s.Ports = append(s.Ports, Port{Tap: "sb3", MAC: mac3, Addr: ip1, Mark: 103, Bridge: other.Bridge})
			apply(t, m, s, Options{})
			first, second := guestOn(t, "seedbed0", "sb1", mac1, ip1), guestOn(t, "seedbed1", "sb3", mac3, ip1)
			// The guest of the network with NAT has the connections, the other one tries to join them.
			owner, ownMAC, ownBridge, thief, mac, bridge := first, mac1, s.Networks[0].MAC, second, mac3, other.MAC
			if !natFirst {
				owner, ownMAC, ownBridge, thief, mac, bridge = thief, mac, bridge, owner, ownMAC, ownBridge
			}
			w := world(t)
			var outside net.PacketConn
			var err error
			w.Do(func() { outside, err = net.ListenPacket("udp4", "198.51.100.2:9000") })
			if err != nil {
				t.Fatal(err)
			}
			defer outside.Close()
			var tx, thiefTX int
			owner.Do(func() { tx = rawSocket(t) })
			thief.Do(func() { thiefTX = rawSocket(t) })
			t.Cleanup(func() { unix.Close(tx); unix.Close(thiefTX) })
			say := func(fd int, from, to seedbed.MAC, dst netip.Addr, sport, dport uint16, text string) {
				t.Helper()
				if _, err := unix.Write(fd, ether(to, from, unix.ETH_P_IP, ip4(ip1, dst, 17, 0, udp(sport, dport, []byte(text))))); err != nil {
					t.Fatal(err)
				}
			}
			source := uint16(24_000 + sourcePorts.Add(1)) // the table of connections still has those of a run before

			away := netip.MustParseAddr("198.51.100.2")
			say(tx, ownMAC, ownBridge, away, source, 9000, "the owner")
			answerOne(t, outside, "welcome")
			arrives(t, tx, "welcome")
			say(thiefTX, mac, bridge, away, source, 9000, "another")
			settle(t, thiefTX, mac)
			say(tx, ownMAC, ownBridge, away, source, 9000, "the end")
			if got := hear(t, outside, "the end"); len(got) > 0 {
				t.Errorf("outside received %q from a guest of another network", got)
			}

			host, err := net.Dial("udp4", netip.AddrPortFrom(ip1, source).String())
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			var at net.PacketConn
			owner.Do(func() { at, err = net.ListenPacket("udp4", netip.AddrPortFrom(ip1, source).String()) })
			if err != nil {
				t.Fatal(err)
			}
			defer at.Close()
			if _, err := host.Write([]byte("a question")); err != nil {
				t.Fatal(err)
			}
			hear(t, at, "a question")
			port := uint16(host.LocalAddr().(*net.UDPAddr).Port)
			say(thiefTX, mac, bridge, gw, source, port, "another's answer")
			settle(t, thiefTX, mac)
			say(tx, ownMAC, ownBridge, gw, source, port, "the answer")
			if got := hear(t, host.(*net.UDPConn), "the answer"); len(got) > 0 {
				t.Errorf("the node received %q from a guest of another network", got)
			}
		})
	}
}
