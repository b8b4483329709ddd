//go:build integration

package netcfg

import (
	"context"
	"strconv"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestFollowLost: while the follower is busy, more happens than the kernel keeps for it. It is told the end of that nevertheless.
func TestFollowLost(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	for i := range 2 {
		netnstest.Run(t, "ip", "link", "add", "noise"+strconv.Itoa(i), "type", "ifb")
		t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "noise"+strconv.Itoa(i)) })
	}
	began, release, told := make(chan struct{}), make(chan struct{}), make(chan bool, 100)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	first := true
	go func() {
		done <- m.Follow(ctx, []string{"seedbed0"}, nil, func(_ string, up bool) {
			if first {
				first = false
				close(began)
				<-release
			}
			told <- up
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Follow ended with %v", err)
		}
	})
	<-began
	rt, err := dialRoute()
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		t.Fatal(err)
	}
	const many = 3000 // events of more than a kilobyte each, and the kernel keeps a few hundred kilobytes
	for i := range many {
		if err := rt.setMTU(links["noise"+strconv.Itoa(i%2)], 1000+i%400); err != nil {
			t.Fatal(err)
		}
	}
	netnstest.Run(t, "ip", "link", "del", "seedbed0")
	close(release)
	for _, want := range []bool{true, false} {
		select {
		case up := <-told:
			if up != want {
				t.Errorf("the bridge is told as up: %t, want %t", up, want)
			}
		case <-time.After(patience):
			t.Fatal("the bridge went, and nobody was told")
		}
	}
}

// TestFollowOverlayAddress: who follows is told when the address of this node for overlays comes to an interface, moves and goes, and
// when the MTU there changes, so that the overlays follow.
func TestFollowOverlayAddress(t *testing.T) {
	m := open(t)
	s := lists{Networks: []seedbed.Network{overlayNet(seedbed.NetworkNAT)}, Address: nodeA}
	apply(t, m, s, Options{})
	for _, name := range []string{"one", "two"} {
		netnstest.Run(t, "ip", "link", "add", name, "type", "ifb")
		netnstest.Run(t, "ip", "link", "set", name, "up")
		t.Cleanup(func() { netnstest.Try("ip", "link", "del", name) })
	}
	told := make(chan string, 100)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Follow(ctx, []string{"sb-wide"}, nil, func(name string, _ bool) { told <- name }) }()
	t.Cleanup(func() { stop(); <-done })
	next := func(what, want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Errorf("%s: told of %q, want %q", what, got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s: nobody was told", what)
		}
	}
	next("at first", "sb-wide")
	at := nodeA.String() + "/24"
	netnstest.Run(t, "ip", "addr", "add", "198.51.100.7/24", "dev", "one") // any other
	netnstest.Run(t, "ip", "addr", "add", at, "dev", "one")
	next("the address comes", "one")
	netnstest.Run(t, "ip", "link", "set", "one", "mtu", "1400")
	next("the MTU changes", "one")
	netnstest.Run(t, "ip", "addr", "del", at, "dev", "one")
	next("the address goes", "")
	netnstest.Run(t, "ip", "addr", "add", at, "dev", "two")
	next("it comes to another", "two")
	netnstest.Run(t, "ip", "link", "del", "two")
	next("the interface goes", "")
	select {
	case name := <-told:
		t.Errorf("told of %q besides", name)
	default:
	}
}
