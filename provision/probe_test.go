package provision

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"seedbed"
)

// TestProbe checks that no instance is made, none started, and none rebuilt, with an address that a host on the wire has; that nothing is
// left of it; and what is not asked.
func TestProbe(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	lan := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "sb-lan", MAC: seedbed.NewMAC(), DHCP: true, Uplink: "br0",
		Prefix: netip.MustParsePrefix("10.79.0.0/24")}
	lan.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	_, err := l.db.CreateNetwork(ctx, lan)
	l.ok(err)
	create := func(nics ...seedbed.NICRequest) seedbed.JobID {
		return l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "small", NICs: nics}, nil))
	}
	taken, user := netip.MustParseAddr("10.79.0.7"), seedbed.MAC{0x52, 0x54, 0, 0xee, 0, 2}
	on := seedbed.NICRequest{Network: "lan", Addr: taken}
	beside := seedbed.NICRequest{Network: "default"}
	remove := func() { l.runUntil(l.asked(seedbed.DoRemove, "web1"), seedbed.JobSucceeded) }

	job := l.runUntil(create(on), seedbed.JobSucceeded)
	if says := l.history(job.ID); !strings.Contains(says, "addresses of the instance are not probed: ") {
		t.Errorf("a worker that cannot probe: %s", says)
	}
	remove()

	var inUse, unasked atomic.Bool
	var asked atomic.Pointer[[]seedbed.AddressProbe]
	l.host.probe = func(all []seedbed.AddressProbe) (probed seedbed.AddressesProbed) {
		asked.Store(&all)
		for _, p := range all {
			switch {
			case unasked.Load():
				probed.Unasked = map[string]string{p.Bridge: "it has no uplink"}
			case inUse.Load() && slices.Contains(p.Addrs, taken):
				probed.Used = append(probed.Used, seedbed.AddressUse{Bridge: p.Bridge, Addr: taken, MAC: user})
			}
		}
		return probed
	}
	unasked.Store(true)
	job = l.runUntil(create(on), seedbed.JobSucceeded)
	if says := l.history(job.ID); !strings.Contains(says, "no host of network lan was asked for the addresses of the instance: it has") {
		t.Errorf("a bridge without an uplink: %s", says)
	}
	remove()
	unasked.Store(false)
	inUse.Store(true)
	const refusal = "address 10.79.0.7 of network lan is used by a host with the MAC address 52:54:00:ee:00:02"
	job = l.runUntil(create(beside, on), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, refusal) {
		t.Errorf("the job says %q; want %q", job.Error, refusal)
	}
	if p := *asked.Load(); len(p) != 1 || p[0].Bridge != "sb-lan" || len(p[0].Addrs) != 2 || p[0].Addrs[1] != lan.Addr6(p[0].MAC) {
		t.Errorf("asked %+v; want both addresses of the NIC on the bridged network", p)
	}
	if all, err := l.db.Instances(context.WithoutCancel(ctx)); err != nil || len(all) > 0 {
		t.Errorf("left: %v, %v", all, err)
	}

	lan6 := lan
	lan6.Name, lan6.Bridge, lan6.MAC, lan6.Prefix, lan6.Uplink = "lan6", "sb-lan6", seedbed.NewMAC(), netip.Prefix{}, "br6"
	_, err = l.db.CreateNetwork(ctx, lan6)
	l.ok(err)
	l.runUntil(create(seedbed.NICRequest{Network: "lan6"}), seedbed.JobSucceeded)
	if p := *asked.Load(); len(p) != 1 || len(p[0].Addrs) != 1 || p[0].Addrs[0] != lan6.Addr6(p[0].MAC) {
		t.Errorf("asked %+v; want the only address of the NIC", p)
	}
	remove()

	second := seedbed.NICRequest{Network: "lan", Addr: netip.MustParseAddr("10.79.0.9"), Secondary: []netip.Addr{taken}}
	if job = l.runUntil(create(second), seedbed.JobRolledBack); !strings.Contains(job.Error, refusal) {
		t.Errorf("with a secondary address that is used, the job says %q; want %q", job.Error, refusal)
	}

	inUse.Store(false)
	l.runUntil(create(on), seedbed.JobSucceeded)
	inUse.Store(true)
	l.runUntil(l.asked(seedbed.DoStart, "web1"), seedbed.JobSucceeded) // it runs, and would answer for its own address
	l.runUntil(l.asked(seedbed.DoStop, "web1"), seedbed.JobSucceeded)
	job = l.runUntil(l.asked(seedbed.DoStart, "web1"), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, refusal) {
		t.Errorf("the start says %q; want %q", job.Error, refusal)
	}
	inUse.Store(false)
	l.runUntil(l.asked(seedbed.DoStart, "web1"), seedbed.JobSucceeded)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	before, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	inUse.Store(true)
	job = l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobRolledBack)
	after, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	if !strings.Contains(job.Error, refusal) || after.State != seedbed.InstanceRunning ||
		after.Volumes[0].Name != before.Volumes[0].Name {
		t.Errorf("the rebuild says %q, want %q, and the instance is %s with volume %s; it was %s with %s",
			job.Error, refusal, after.State, after.Volumes[0].Name, before.State, before.Volumes[0].Name)
	}
	l.runUntil(l.asked(seedbed.DoStop, "web1"), seedbed.JobSucceeded)
	_, err = l.db.ChangeNetwork(ctx, "lan", func(n *seedbed.Network) error {
		n.NoProbe = true
		return nil
	})
	l.ok(err)
	l.runUntil(l.asked(seedbed.DoStart, "web1"), seedbed.JobSucceeded)
}
