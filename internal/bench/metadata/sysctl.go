package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// hostLimits are limits of the whole host that a thousand guests on one
// machine go beyond. They can only be set from the host's own namespace.
var hostLimits = []struct {
	path string
	want int
}{
	// Each guest has a neighbour entry for the server, and the server one for each (arp(7)).
	{"/proc/sys/net/ipv4/neigh/default/gc_thresh3", 8192},
	{"/proc/sys/net/ipv4/neigh/default/gc_thresh2", 6144},
	{"/proc/sys/net/ipv4/neigh/default/gc_thresh1", 4096},
	// A broadcast of one guest becomes a packet for each other one, in one
	// processor's queue (Documentation/admin-guide/sysctl/net.rst).
	{"/proc/sys/net/core/netdev_max_backlog", 65536},
}

// raiseLimits raises the limits that are lower; restore puts them back.
func raiseLimits() (restore func(), err error) {
	before := map[string][]byte{}
	restore = func() {
		for path, v := range before {
			if err := os.WriteFile(path, v, 0); err != nil {
				fmt.Fprintln(os.Stderr, "bench: put back:", err)
			}
		}
	}
	for _, l := range hostLimits {
		b, err := os.ReadFile(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "bench: %s cannot be set from here; packets may be lost\n", l.path)
			continue
		}
		if err != nil {
			restore()
			return nil, err
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n >= l.want {
			continue
		}
		if err := os.WriteFile(l.path, []byte(strconv.Itoa(l.want)), 0); err != nil {
			restore()
			return nil, err
		}
		before[l.path] = b
	}
	return restore, nil
}

// prepareNetwork sets what is this namespace's own: closed connections are
// forgotten soon, so that a run does not fill the host's table of tracked ones;
// and frames do not take the detour through the IP layer's hooks that a program
// which loaded br_netfilter switched on for every namespace.
func prepareNetwork() error {
	if err := os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", []byte("2"), 0); err != nil {
		return err
	}
	for _, name := range []string{"iptables", "ip6tables", "arptables"} {
		err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+name, []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
