package provision

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/internal/feedtest"
)

// nicRequest asks for something of a NIC of web1.
func nicRequest(do string, index int, nics ...seedbed.NICRequest) seedbed.Request {
	req := seedbed.Request{Action: do, Name: "web1", NICs: nics}
	if do != seedbed.DoNICAdd {
		req.NIC = &index
	}
	return req
}

func (l *lab) onNIC(do string, index int, nics ...seedbed.NICRequest) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Submit(l.t.Context(), nicRequest(do, index, nics...), nil))
}

func (l *lab) addNIC(network string) seedbed.JobID {
	l.t.Helper()
	return l.onNIC(seedbed.DoNICAdd, 0, seedbed.NICRequest{Network: network})
}

// otherNetwork makes the network "other".
func (l *lab) otherNetwork() {
	l.t.Helper()
	_, err := l.db.CreateNetwork(l.t.Context(), seedbed.Network{Name: "other", Kind: seedbed.NetworkNAT, Bridge: "sbother",
		MAC:    seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.98.0.0/24"), Gateway: netip.MustParseAddr("10.98.0.1"), DHCP: true, NAT: true})
	l.ok(err)
}

// guest returns what the node serves of web1.
func (l *lab) guest(id seedbed.InstanceID) (g seedbed.Guest) {
	l.t.Helper()
	page, err := l.db.FeedPage(l.t.Context(), testNode, 0, "")
	l.ok(err)
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest != nil && c.Guest.ID == id {
			g = *c.Guest
		}
	}
	return g
}

// hasNICs checks that the database, the domain and what the guest of web1 is served have NICs in these networks, and no other address is
// taken for it.
func (l *lab) hasNICs(networks ...string) {
	l.t.Helper()
	ctx := l.t.Context()
	i, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	var have, domain, served []string
	var addrs, leased []netip.Addr
	for _, n := range i.NICs {
		have = append(have, n.Network)
		addrs = append(addrs, n.Addr)
		if n.State != seedbed.NICAttached {
			l.t.Errorf("NIC %d is %s", n.Index, n.State)
		}
	}
	bridges := map[string]string{}
	all, err := l.db.Networks(ctx)
	l.ok(err)
	for _, n := range all {
		bridges[n.Bridge] = n.Name
		leases, err := l.db.NetworkLeases(ctx, seedbed.AllProjects(), n.Name)
		l.ok(err)
		for _, lease := range leases {
			leased = append(leased, lease.Addr)
		}
	}
	spec, _ := l.hv.Spec(i.ID)
	for _, n := range spec.NICs {
		domain = append(domain, bridges[n.Bridge])
		if !slices.ContainsFunc(i.NICs, func(own seedbed.NIC) bool { return own.ID.Tap() == n.Tap && own.MAC == n.MAC }) {
			l.t.Errorf("the domain has a NIC %+v", n)
		}
	}
	for _, n := range l.guest(i.ID).NICs {
		served = append(served, n.Network)
		if n.Hidden || !slices.Contains(addrs, n.Addr) {
			l.t.Errorf("the guest is served %+v", n)
		}
	}
	slices.Sort(domain) // a NIC that was taken away and put back is the last
	for what, got := range map[string][]string{"the database": have, "the domain": domain, "the feed": served} {
		if d := cmp.Diff(networks, got); d != "" {
			l.t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	slices.SortFunc(leased, netip.Addr.Compare)
	if !slices.Equal(addrs, leased) {
		l.t.Errorf("the addresses %v are taken for %v", leased, addrs)
	}
}

// TestNICFilteredBeforePlugged checks that a NIC is served, hidden from its guest, before the domain has it, and that it is hidden and
// still served until the domain no longer has it.
func TestNICFilteredBeforePlugged(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	hidden := func(at string) {
		t.Helper()
		g := l.guest(inst.ID)
		if len(g.NICs) != 2 || !g.NICs[1].Hidden || len(g.Shown()) != 1 || g.NICs[1].Index != 1 {
			t.Errorf("%s, the guest is served %+v", at, g.NICs)
		}
	}
	l.refuse("AttachNIC", 1)
	kept := l.job(l.intake.Submit(t.Context(), func() seedbed.Request {
		r := nicRequest(seedbed.DoNICAdd, 0, seedbed.NICRequest{Network: "default"})
		r.JobOptions = keeping()
		return r
	}(), nil))
	l.runUntil(kept, seedbed.JobFailed)
	hidden("once its attachment has failed")
	if i, err := l.db.Instance(t.Context(), inst.ID); err != nil || i.NICs[1].State != seedbed.NICAttaching {
		t.Errorf("%+v, %v", i.NICs, err)
	}
	_, err := l.db.ResumeJob(t.Context(), kept)
	l.ok(err)
	l.runUntil(kept, seedbed.JobSucceeded)
	l.hasNICs("default", "default")

	// A guest that does not let go of it keeps it, shown as before.
	l.hv.SetDeaf(inst.ID, true)
	l.runUntil(l.onNIC(seedbed.DoNICRemove, 1), seedbed.JobRolledBack)
	l.hasNICs("default", "default")
	l.hv.SetDeaf(inst.ID, false)
	l.runUntil(l.onNIC(seedbed.DoNICRemove, 0), seedbed.JobSucceeded)
	if g := l.guest(inst.ID); len(g.NICs) != 1 || g.NICs[0].Index != 1 {
		t.Errorf("once the first is removed: %+v", g.NICs)
	}
	_, err = l.intake.Submit(t.Context(), nicRequest(seedbed.DoNICRemove, 1), nil)
	l.want("remove the only one", err, seedbed.ErrConflict)
	_, err = l.intake.Submit(t.Context(), nicRequest(seedbed.DoNICRemove, 0), nil)
	l.want("remove what is gone", err, seedbed.ErrNotFound)
}

// TestLeftNICIsRemoved checks that a NIC which a job could not take back keeps its filters, stays out of the metadata and of a definition
// that is made again, and can be removed.
func TestLeftNICIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	job := nicRequest(seedbed.DoNICAdd, 0, seedbed.NICRequest{Network: "default"})
	job.JobOptions = keeping()
	l.refuse("AttachNIC", 1)
	l.runUntil(l.job(l.intake.Submit(t.Context(), job, nil)), seedbed.JobFailed)
	_, err := l.intake.Submit(t.Context(), nicRequest(seedbed.DoNICSet, 1, seedbed.NICRequest{Network: "default"}), nil)
	l.want("take it elsewhere", err, seedbed.ErrConflict)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	if spec, _ := l.hv.Spec(inst.ID); len(spec.NICs) != 1 {
		t.Errorf("the domain has %+v", spec.NICs)
	}
	l.runUntil(l.onNIC(seedbed.DoNICRemove, 1), seedbed.JobSucceeded)
	l.hasNICs("default")
}

// TestRebuildKeepsNICs checks that the NICs that were added survive a rebuild.
func TestRebuildKeepsNICs(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	l.otherNetwork()
	l.runUntil(l.addNIC("other"), seedbed.JobSucceeded)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	l.hasNICs("default", "other")
}

// TestGroupsOfNewNIC checks that a new NIC is in the security groups of its instance's profile, as those that it was made with.
func TestGroupsOfNewNIC(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	for _, name := range []string{"web", "own"} {
		_, err := l.db.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: name})
		l.ok(err)
	}
	inst := l.made()
	_, err := l.db.ChangeProfile(ctx, inst.Profile, func(p *seedbed.Profile) error { p.SecurityGroups = []string{"web"}; return nil })
	l.ok(err)
	l.runUntil(l.addNIC("default"), seedbed.JobSucceeded)
	l.runUntil(l.onNIC(seedbed.DoNICAdd, 0, seedbed.NICRequest{Network: "default", Groups: []string{"own"}}), seedbed.JobSucceeded)
	i, err := l.db.Instance(ctx, inst.ID)
	l.ok(err)
	if d := cmp.Diff([][]string{{"web"}, {"own"}}, [][]string{i.NICs[1].Groups, i.NICs[2].Groups}); d != "" {
		t.Error(d)
	}
}

// TestNICServedAtTheEnd checks that the node has applied what a job on a NIC makes of the metadata once the job has ended.
func TestNICServedAtTheEnd(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	l.otherNetwork()
	ended := func(job seedbed.JobID) {
		t.Helper()
		l.runUntil(job, seedbed.JobSucceeded)
		page, err := l.db.FeedPage(t.Context(), testNode, 0, "")
		l.ok(err)
		if applied, _, err := l.db.Applied(t.Context(), testNode); err != nil || applied < page.Revision {
			t.Errorf("the node has applied revision %d of %d, %v", applied, page.Revision, err)
		}
	}
	ended(l.addNIC("default"))
	ended(l.onNIC(seedbed.DoNICSet, 1, seedbed.NICRequest{Network: "other"}))
	ended(l.onNIC(seedbed.DoNICRemove, 0))
}

// TestNICUnchangedWithoutDomain checks that a job on a NIC that could not attach it fails before it changes anything: without a domain, and
// with a worker that does not know of NICs.
func TestNICUnchangedWithoutDomain(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	l.otherNetwork()
	l.runUntil(l.addNIC("default"), seedbed.JobSucceeded)
	before, err := l.db.Instance(t.Context(), inst.ID)
	l.ok(err)
	unchanged := func(job seedbed.JobID) {
		t.Helper()
		l.runUntil(job, seedbed.JobRolledBack)
		now, err := l.db.Instance(t.Context(), inst.ID)
		l.ok(err)
		if d := cmp.Diff(before.NICs, now.NICs, cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Errorf("the NICs have changed (-want +got):\n%s", d)
		}
		leases, err := l.db.NetworkLeases(t.Context(), seedbed.AllProjects(), "other")
		if err != nil || len(leases) > 0 {
			t.Errorf("addresses are kept: %+v, %v", leases, err)
		}
	}
	l.refuse("DetachNIC", 1)
	unchanged(l.onNIC(seedbed.DoNICRemove, 1))
	l.refuse("DetachNIC", 1)
	unchanged(l.onNIC(seedbed.DoNICSet, 1, seedbed.NICRequest{Network: "other"}))
	l.hasNICs("default", "default")
	l.ok(l.hv.DestroyDomain(t.Context(), inst.ID))
	l.ok(l.hv.UndefineDomain(t.Context(), inst.ID))
	unchanged(l.onNIC(seedbed.DoNICSet, 1, seedbed.NICRequest{Network: "other"}))
	unchanged(l.onNIC(seedbed.DoNICAdd, 1, seedbed.NICRequest{Network: "other"}))
	l.runUntil(l.onNIC(seedbed.DoNICRemove, 1), seedbed.JobSucceeded)
}

// TestPlanNIC checks that a dry run says what a job on a NIC makes, and what prevents it.
func TestPlanNIC(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	l.otherNetwork()
	plan := func(req seedbed.Request, problem string) seedbed.Plan {
		t.Helper()
		p, err := l.intake.Plan(t.Context(), req)
		l.ok(err)
		if got := strings.Join(p.Problems, "; "); problem == "" && got != "" || !strings.Contains(got, problem) {
			t.Errorf("%s: problems %q, want %q", req.Action, got, problem)
		}
		return p
	}
	p := plan(nicRequest(seedbed.DoNICAdd, 0, seedbed.NICRequest{Network: "other"}), "")
	if len(p.NICs) != 1 || p.NICs[0].Index != 1 || p.NICs[0].Addr != netip.MustParseAddr("10.98.0.2") || len(p.Stages) != 3 {
		t.Errorf("add: %+v", p)
	}
	p = plan(nicRequest(seedbed.DoNICSet, 0, seedbed.NICRequest{Network: "other"}), "")
	if len(p.NICs) != 1 || p.NICs[0].Network != "other" || p.NICs[0].MAC == (seedbed.MAC{}) || len(p.Stages) != 5 {
		t.Errorf("set: %+v", p)
	}
	plan(nicRequest(seedbed.DoNICRemove, 0), "is the only one of instance")
	plan(nicRequest(seedbed.DoNICSet, 0, seedbed.NICRequest{Network: "default"}), "is in network \"default\" already")
	plan(nicRequest(seedbed.DoNICSet, 0, seedbed.NICRequest{Network: "other", BandwidthIn: 1e6}), "expected only a network and an address")
	plan(nicRequest(seedbed.DoNICSet, 7, seedbed.NICRequest{Network: "other"}), "has no NIC 7: it has 0")
	plan(nicRequest(seedbed.DoNICAdd, 0), "there are 0 nics: expected one")
	l.hasNICs("default")
}

// TestTakenAddressOfNIC checks that a NIC whose address another host uses is neither added nor taken there.
func TestTakenAddressOfNIC(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	lan := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "sb-lan", MAC: seedbed.NewMAC(), DHCP: true, Uplink: "br0",
		Prefix: netip.MustParsePrefix("10.97.0.0/24"), Gateway: netip.MustParseAddr("10.97.0.1")}
	_, err := l.db.CreateNetwork(t.Context(), lan)
	l.ok(err)
	l.runUntil(l.addNIC("default"), seedbed.JobSucceeded)
	l.host.probe = func(asked []seedbed.AddressProbe) seedbed.AddressesProbed {
		return seedbed.AddressesProbed{Used: []seedbed.AddressUse{{Bridge: asked[0].Bridge, Addr: asked[0].Addrs[0], MAC: seedbed.NewMAC()}}}
	}
	l.runUntil(l.addNIC("lan"), seedbed.JobRolledBack)
	l.runUntil(l.onNIC(seedbed.DoNICSet, 1, seedbed.NICRequest{Network: "lan"}), seedbed.JobRolledBack)
	l.hasNICs("default", "default")
}
