// Package storetest is the contract suite of package store. Every database that Seedbed can use
// passes it.
package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/store"
)

// Run runs the contract suite. Each call of open returns a separate, empty store, which is closed
// when its test ends.
func Run(t *testing.T, open func(t *testing.T) *store.DB) {
	alone := func(t *testing.T) (*store.DB, *store.DB) { return open(t), nil }
	groups := []struct {
		name  string
		cases map[string]func(*bench)
	}{
		{"catalogue", catalogueCases}, {"network", networkCases},
		{"published", publishedCases},
		{"accept", acceptCases},
		{"race", raceCases},
		{"job", jobCases},
		{"lease", leaseCases},
		{"journal", journalCases},
		{"step", stepCases},
		{"queue", queueCases},
		{"output", outputCases},
		{"finish", finishCases},
		{"feed", feedCases},
		{"served", servedCases},
		{"guest", guestCases},
		{"cleanup", cleanupCases},
		{"orphan", orphanCases},
		{"hook", hookCases},
		{"volume", volumeCases},
		{"project volume", projectVolumeCases},
		{"volume size", volumeSizeCases},
		{"nic", nicCases},
		{"rebuild", rebuildCases},
		{"resize", resizeCases},
		{"token quota", tokenQuotaCases},
		{"removal", removalCases},
		{"overtaking", overtakeCases},
		{"outbox", outboxCases},
		{"access", accessCases},
		{"project", projectCases},
		{"project quota", projectQuotaCases},
		{"fair claims", fairCases},
		{"template", templateCases},
		{"change", changeCases},
		{"script", scriptCases},
		{"provisioner", provisionerCases},
		{"ova", ovaCases},
		{"listing", listingCases},
		{"placement group", placementGroupCases},
		{"takeover", catalogueTakeoverCases},
		{"native", nativeCases},
		{"node", nodeCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			runCases(t, g.cases, alone)
		})
	}
}

// Races runs the part of the contract suite about concurrent requests on two programs that share a
// database.
func Races(t *testing.T, open func(t *testing.T) (one, other *store.DB)) {
	runCases(t, raceCases, open)
}

func runCases(t *testing.T, cases map[string]func(*bench), open func(t *testing.T) (one, other *store.DB)) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := open(t)
			test(&bench{T: t, DB: one, other: other})
		})
	}
}

// bench is one test with its own database. If other is not nil, it is a second program on the
// database, and the two are called in turn where requests race.
type bench struct {
	*testing.T
	*store.DB
	other *store.DB
	asked atomic.Int64
}

const (
	node  = "node1"
	lease = time.Hour
)

var same = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

// must fails the test on an error.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// want fails the test unless err is of that kind and its text contains each of words.
func (b *bench) want(err, kind error, words ...string) {
	b.Helper()
	if !errors.Is(err, kind) {
		b.Fatalf("error %v: want kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			b.Fatalf("error %q does not say %q", err, w)
		}
	}
}

// equal fails the test unless got equals want.
func (b *bench) equal(got, want any, opts ...cmp.Option) {
	b.Helper()
	if d := cmp.Diff(want, got, append(cmp.Options{same}, opts...)); d != "" {
		b.Fatalf("not as wanted (-want +got):\n%s", d)
	}
}

// get returns v, and fails the test on an error.
func get[T any](v T, err error) func(*bench) T {
	return func(b *bench) T {
		b.Helper()
		b.must(err)
		return v
	}
}

// holder returns the job that the error names.
func holder(err error) seedbed.JobID {
	if e := (*seedbed.Error)(nil); errors.As(err, &e) {
		return e.Holder
	}
	return ""
}

// until waits for ok: a few minutes, for a busy computer.
func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("%s: not within five minutes", what)
		}
	}
}

// network adds a network. Of those with the same prefix, only the first has NAT.
func (b *bench) network(name, bridge, prefix string) seedbed.Network {
	b.Helper()
	kind := seedbed.NetworkNAT
	for _, other := range get(b.Networks(context.Background()))(b) {
		if other.Prefix.String() == prefix {
			kind = seedbed.NetworkIsolated
		}
	}
	p := netip.MustParsePrefix(prefix)
	return get(b.CreateNetwork(context.Background(), seedbed.Network{
		Name: name, Bridge: bridge, MAC: seedbed.NewMAC(), Prefix: p, Gateway: p.Addr().Next(),
		DNS: []netip.Addr{netip.MustParseAddr("9.9.9.9")}, Kind: kind, DHCP: true,
	}))(b)
}

func importOf(name string) seedbed.Acceptance {
	return seedbed.Acceptance{
		Job:   seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImport, Spec: []byte(`{"path":"/img"}`), Node: node},
		Image: &seedbed.Image{Name: name, Pool: "default", Source: "/img"},
	}
}

// image creates an active image.
func (b *bench) image(name string) {
	b.Helper()
	ctx := context.Background()
	get(b.Accept(ctx, importOf(name)))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{Size: seedbed.GiB, Format: "qcow2", SHA256: "abc"}}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
}

// world creates the network default and the active image debian.
func (b *bench) world() {
	b.Helper()
	b.network("default", "seedbed0", "10.99.0.0/24")
	b.image("debian")
}

var macs atomic.Uint32

// newMAC returns an address that no other test has. Two of a thousand random ones would be equal
// once in thirty runs.
func newMAC() seedbed.MAC {
	m := seedbed.MAC{0x52, 0x54}
	binary.BigEndian.PutUint32(m[2:], macs.Add(1))
	return m
}

func createOf(name string) seedbed.Acceptance {
	id := seedbed.NewInstanceID()
	return seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
		Instance: &seedbed.Instance{
			ID: id, Name: name, Profile: "web", Image: "debian", Node: node, VCPUs: 2, Memory: seedbed.GiB, Ready: seedbed.ReadyReport,
			UserData: []byte("#cloud-config\n"), SSHKeys: []string{"ssh-ed25519 AAAA"}, ReportToken: "tok",
			NICs:    []seedbed.NIC{{MAC: newMAC(), Network: "default"}},
			Volumes: []seedbed.Volume{{Name: string(id) + "-0", Pool: "default", Size: 10 * seedbed.GiB, Image: "debian"}},
		},
	}
}

func removeOf(id seedbed.InstanceID) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRemove, Instance: id}}
}

// claim claims the next job, and fails the test if there is none.
func (b *bench) claim() seedbed.Job {
	b.Helper()
	j := get(b.ClaimJob(context.Background(), "test", lease))(b)
	if j == nil {
		b.Fatal("there is no job to claim")
	}
	return *j
}

// running creates and claims the create job of a new instance called name.
func (b *bench) running(name string) (seedbed.Job, seedbed.Instance) {
	b.Helper()
	a := createOf(name)
	get(b.Accept(context.Background(), a))(b)
	j := b.claim()
	b.equal(j.ID, a.Job.ID)
	return j, get(b.Instance(context.Background(), a.Instance.ID))(b)
}

// instance creates an instance whose create job has succeeded.
func (b *bench) instance(name string) seedbed.Instance {
	b.Helper()
	ctx := context.Background()
	j, i := b.running(name)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	return get(b.Instance(ctx, i.ID))(b)
}

func guestOf(i seedbed.Instance) seedbed.Guest {
	g := seedbed.Guest{ID: i.ID, Name: i.Name, Profile: i.Profile, Image: i.Image, VCPUs: i.VCPUs,
		Memory: i.Memory, SSHKeys: i.SSHKeys, Created: i.Created, Node: i.Node}
	for _, n := range i.NICs {
		g.NICs = append(g.NICs, seedbed.GuestNIC{ID: n.ID, MAC: n.MAC, Network: n.Network, Addr: n.Addr, Groups: n.Groups})
	}
	return g
}

func nameN(n int) string { return fmt.Sprintf("web%d", n) }
