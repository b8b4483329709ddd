//go:build integration

package guestplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/feed"
	"seedbed/metadata"
	"seedbed/netcfg"
	"seedbed/netcfg/netnstest"
)

// The places where a guest asks.
const (
	ask4     = "169.254.169.254:80"
	ask6     = "[fd00:ec2::254]:80"
	ask6link = "[fe80::a9fe:a9fe%eth0]:80"
)

var everywhere = []string{ask4, ask6, ask6link}

// realPlane is the whole guest plane but the feed: the kernel's part, the servers and the
// directory.
func realPlane(t *testing.T) *Plane {
	t.Helper()
	k, err := netcfg.Open(quiet)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	spool, err := feed.OpenSpool(feed.SpoolConfig{Socket: filepath.Join(dir, "feed.sock"), Node: "node1", Dir: dir, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p := testPlane(k)
	p.spool = spool
	p.guests = newGuests(p.directory, k)
	t.Cleanup(func() {
		if err := k.Cleanup(context.Background(), true); err != nil {
			t.Error(err)
		}
		k.Close()
	})
	start(t, p)
	return p
}

func newGuests(d *metadata.Directory, k *netcfg.Manager) *metadata.Server {
	return metadata.New(metadata.Config{Directory: d, Neighbour: k.Neighbour, HasLink: k.HasLink, Log: quiet})
}

// serveState applies a state and waits until its bridges are served.
func serveState(t *testing.T, p *Plane, state seedbed.GuestPlaneState) {
	t.Helper()
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		have := strings.Join(sockets(t), " ")
		for _, n := range state.Networks {
			for _, s := range metadataOn(n.Bridge) {
				if !strings.Contains(have, s) {
					return "no " + s + " among " + have
				}
			}
		}
		return ""
	})
}

// person is a guest: its record, and its namespace.
type person struct {
	seedbed.Guest
	ns *netnstest.Namespace
}

func record(number byte, network string, addr string) seedbed.Guest {
	return seedbed.Guest{
		ID: seedbed.InstanceID(fmt.Sprintf("ec2a0b1c-2d3e-4f56-8789-0123456789%02x", number)), Name: fmt.Sprintf("guest-%d", number),
		NICs: []seedbed.GuestNIC{{ID: seedbed.NICID(100 + int(number)), MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, number},
			Network: network, Addr: netip.MustParseAddr(addr)}},
	}
}

// attach makes a guest's namespace on a bridge, by a port of that name.
func attach(t *testing.T, g seedbed.Guest, bridge, port string) person {
	t.Helper()
	n := netnstest.New(t)
	p := person{g, n}
	netnstest.Veth(t, port, n, g.NICs[0].MAC.String())
	netnstest.Run(t, "ip", "link", "set", port, "master", bridge)
	n.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.addr_gen_mode=1")
	p.address(t, g.NICs[0].Addr.String(), linkLocal(g.NICs[0].MAC))
	return p
}

// address gives a guest any addresses, and the routes that its DHCP would.
func (p person) address(t *testing.T, v4, v6 string) {
	t.Helper()
	p.ns.Run(t, "ip", "addr", "flush", "dev", "eth0")
	p.ns.Run(t, "ip", "addr", "add", v4+"/24", "dev", "eth0")
	p.ns.Run(t, "ip", "-6", "addr", "add", v6+"/64", "dev", "eth0", "nodad")
	subnet := netip.PrefixFrom(netip.MustParseAddr(v4), 24).Masked()
	p.ns.Run(t, "ip", "route", "replace", "default", "via", subnet.Addr().Next().String())
	p.ns.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0")
}

// offered returns what udhcpc prints when it has a lease: say, a text with its variables. It asks for options besides its own.
func (p person) offered(t *testing.T, say string, options ...string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "lease")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = bound ] && echo \""+say+"\"\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "5", "-s", script}
	for _, o := range options {
		args = append(args, "-O", o)
	}
	return p.ns.Run(t, "busybox", args...)
}

func linkLocal(m seedbed.MAC) string {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]}).String()
}

// answer is what a request got: the status 0 is none within the time.
type answer struct {
	status int
	body   string
}

// request asks once from a namespace, with headers as "Name: value".
func request(t *testing.T, from *netnstest.Namespace, wait time.Duration, method, addr, path string, headers ...string) answer {
	t.Helper()
	var c net.Conn
	err := errors.New("not tried yet")
	for end := time.Now().Add(wait); err != nil; { // a link that was just set up loses what comes too early
		left := time.Until(end)
		if left <= 0 {
			return answer{}
		}
		if from.Do(func() { c, err = net.DialTimeout("tcp", addr, left) }); err != nil {
			time.Sleep(min(left, 10*time.Millisecond))
		}
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: metadata\r\nConnection: close\r\nContent-Length: 0\r\n%s\r\n", method, path,
		strings.Join(append(headers, ""), "\r\n"))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return answer{}
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return answer{}
	}
	return answer{r.StatusCode, string(b)}
}

const (
	patience = time.Minute
	shortly  = 700 * time.Millisecond
	idPath   = "/latest/meta-data/instance-id"
	tokenTTL = "X-aws-ec2-metadata-token-ttl-seconds: 60"
)

func (p person) get(t *testing.T, addr string, headers ...string) answer {
	t.Helper()
	return request(t, p.ns, patience, "GET", addr, idPath, headers...)
}

// served fails unless the guest gets its own at each address.
func (p person) served(t *testing.T, when string, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		if got, want := p.get(t, addr), (answer{200, p.ServedID()}); got != want {
			t.Errorf("%s, %s at %s: %+v, want %+v", when, p.Name, addr, got, want)
		}
	}
}

// robs fails when what the guest gets has anything of the other's.
func (p person) robs(t *testing.T, when string, other person, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		for _, path := range []string{idPath, "/latest/meta-data/local-ipv4", "/latest/meta-data/mac",
			"/latest/dynamic/instance-identity/document"} {
			got := request(t, p.ns, shortly, "GET", addr, path)
			if got.status == 0 {
				break // and neither are the others answered
			}
			if got.status == 200 && (strings.Contains(got.body, other.ServedID()) || strings.Contains(got.body, other.NICs[0].MAC.String()) ||
				strings.Contains(got.body, other.NICs[0].Addr.String())) {
				t.Errorf("%s, %s at %s: %s of %s: %+v", when, p.Name, addr, path, other.Name, got)
			}
		}
	}
}
