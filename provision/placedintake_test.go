package provision

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/testdb"
	"seedbed/provision/intake"
	"seedbed/provision/placement"
	"seedbed/store"
)

// placedIntake returns the real intake on SQLite over nodes that have reported, with an image in a
// shared pool and the profile "small".
func placedIntake(t *testing.T, conf placement.Config, nodes ...seedbed.Node) (*store.DB, *intake.Intake) {
	t.Helper()
	db := testdb.Open(t)
	t.Cleanup(func() { db.Close() })
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		_, err := db.AddNode(ctx, n)
		must(err)
		must(db.NoteNode(ctx, n.Name, n.Report, n.Problem, time.Now()))
	}
	_, err := db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.9.0.0/24"), Gateway: netip.MustParseAddr("10.9.0.1")})
	must(err)
	in := NewIntake(db, intake.Serving{Node: "hv1", Placement: conf})
	receipt, err := in.Import(ctx, "debian", "vms", seedbed.ImportSpec{Path: "/x"}, usual)
	must(err)
	job, err := db.ClaimJob(ctx, "test", time.Minute)
	must(err)
	must(db.Step(ctx, job.Ref(), seedbed.Step{Next: "import", Total: 1}))
	must(db.Step(ctx, job.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{Size: seedbed.GiB}}))
	must(db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	if job.ID != receipt.Job {
		t.Fatalf("claimed %s", job.ID)
	}
	_, err = db.CreateProfile(ctx, seedbed.Profile{Name: "small", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, Network: "default"})
	must(err)
	return db, in
}

func sharedNode(name string, free seedbed.Bytes) seedbed.Node {
	return seedbed.Node{Name: name, Worker: "https://" + name + ".example:7375", Report: seedbed.NodeReport{
		CPUs: 8, Memory: 256 * seedbed.GiB, MemoryFree: free, Pools: []seedbed.PoolInfo{{Name: "vms", Type: "ceph", Shared: true}}}}
}

// TestBurstIsSpread checks that fifty concurrent creates are spread over three nodes nearly as if they
// had come one after the other: every decision takes the others into account. An instance that was
// stored just as the placer read the use of the nodes counts twice until the next read.
func TestBurstIsSpread(t *testing.T) {
	t.Parallel()
	for selector, want := range map[string]map[string]int{
		// From 100, 100 and 90 GiB: after fifty, each has 80.
		seedbed.SelectMem:   {"hv1": 20, "hv2": 20, "hv3": 10},
		seedbed.SelectVMs:   {"hv1": 17, "hv2": 17, "hv3": 16},
		seedbed.SelectVCPUs: {"hv1": 17, "hv2": 17, "hv3": 16},
		seedbed.SelectLoad:  {"hv1": 17, "hv2": 17, "hv3": 16},
	} {
		t.Run(selector, func(t *testing.T) {
			t.Parallel()
			db, in := placedIntake(t, placement.Config{Selector: selector},
				sharedNode("hv1", 100*seedbed.GiB), sharedNode("hv2", 100*seedbed.GiB), sharedNode("hv3", 90*seedbed.GiB))
			var group sync.WaitGroup
			for n := range 50 {
				group.Go(func() {
					_, err := in.Submit(t.Context(), seedbed.Request{Action: seedbed.DoCreate, Name: fmt.Sprintf("web%d", n), Profile: "small"}, nil)
					if err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			all, err := db.Instances(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, i := range all {
				got[i.Node]++
			}
			for node, n := range want {
				if got[node] < n-2 || got[node] > n+2 {
					t.Errorf("instances by node: %v, want about %v", got, want)
					break
				}
			}
			if len(all) != 50 || len(got) != len(want) {
				t.Errorf("%d instances by node: %v, want 50 on %d nodes", len(all), got, len(want))
			}
		})
	}
}

// TestPlacedIntake checks that placement follows a request's node and a template's limit and
// selector. The job is placed where its instance is, and a plan says the same.
func TestPlacedIntake(t *testing.T) {
	t.Parallel()
	db, in := placedIntake(t, placement.Config{}, sharedNode("hv1", 10*seedbed.GiB),
		sharedNode("hv2", 50*seedbed.GiB), sharedNode("hv3", 30*seedbed.GiB))
	ctx := t.Context()
	if _, err := db.CreateSystemTemplate(
		ctx, seedbed.SystemTemplate{Name: "limited", VCPUs: 1, Memory: seedbed.GiB, NodeLimit: []string{"hv1", "hv3"}, NodeSelector: "vms"},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateProfile(ctx, seedbed.Profile{Name: "limited", System: "limited", Image: "debian", Network: "default"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, profile, node, want, says string }{
		{name: "web1", profile: "small", want: "hv2"},
		{name: "web2", profile: "small", node: "hv1", want: "hv1"},
		{name: "web3", profile: "limited", want: "hv3"}, // hv1 has web2
		{name: "web4", profile: "limited", node: "hv1", want: "hv1"},
		{
			name: "web5", profile: "limited", node: "hv2",
			says: `node "hv2" cannot take instance "web5": the system template "limited" limits its instances to the nodes hv1, hv3`,
		},
		{name: "web5", profile: "small", node: "hv9", says: `node "hv9" does not exist`},
	} {
		req := seedbed.Request{Action: seedbed.DoCreate, Name: test.name, Profile: test.profile, Node: test.node}
		plan, err := in.Plan(ctx, req)
		if err != nil || plan.Node != test.want || (len(plan.Problems) == 0) != (test.says == "") ||
			len(plan.Placement) != 3 || plan.Placement[0].Chosen != (test.says == "") {
			t.Errorf("%s: the plan is %+v, %v", test.name, plan, err)
		}
		receipt, err := in.Submit(ctx, req, nil)
		if test.says != "" {
			if !errors.Is(err, seedbed.ErrInvalid) || !cmp.Equal(plan.Problems, []string{err.Error()}) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s on %s: %v, and the plan says %q; want %q", test.name, test.node, err, plan.Problems, test.says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		job, err := db.Job(ctx, receipt.Job)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := db.InstanceByName(ctx, seedbed.InDefault(test.name))
		if err != nil || inst.Node != test.want || job.Node != test.want {
			t.Errorf("%s: the instance is on %q and its job on %q (%v); want %q", test.name, inst.Node, job.Node, err, test.want)
		}
	}
	image, err := db.Image(ctx, "debian")
	if err != nil || image.Node != "hv1" {
		t.Errorf("the image is of %q, %v", image.Node, err)
	}
	// Everything else, but a migration, is done to an instance on its own node.
	for _, action := range []string{seedbed.DoStart, seedbed.DoStop, seedbed.DoReboot, seedbed.DoRemove, seedbed.DoRebuild} {
		_, err := in.Submit(ctx, seedbed.Request{Action: action, Name: "web2", Node: "hv2"}, nil)
		if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "only migrate takes an instance to another one") {
			t.Errorf("%s on another node: %v", action, err)
		}
	}
}

// TestNodeChangesCountAtOnce checks that no instance is placed by what a node was before the last
// change of this process.
func TestNodeChangesCountAtOnce(t *testing.T) {
	t.Parallel()
	db, in := placedIntake(t, placement.Config{}, sharedNode("hv1", 10*seedbed.GiB), sharedNode("hv2", 50*seedbed.GiB))
	ctx := t.Context()
	placed := func(want string) {
		t.Helper()
		plan, err := in.Plan(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "small"})
		if err != nil || plan.Node != want {
			t.Errorf("placed on %q, %v; want %q (%v)", plan.Node, err, want, plan.Problems)
		}
	}
	cordon := func(name string, cordoned bool) {
		t.Helper()
		if _, err := db.ChangeNode(ctx, name, func(n *seedbed.Node) error { n.Cordoned = cordoned; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	placed("hv2")
	for range 3 {
		cordon("hv2", true)
		placed("hv1")
		cordon("hv1", true)
		placed("")
		cordon("hv1", false)
		placed("hv1")
		cordon("hv2", false)
		placed("hv2")
	}
	n := sharedNode("hv3", 90*seedbed.GiB)
	if _, err := db.AddNode(ctx, n); err != nil {
		t.Fatal(err)
	}
	if err := db.NoteNode(ctx, n.Name, n.Report, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	placed("hv3")
	cordon("hv3", true)
	if err := db.RemoveNode(ctx, "hv3"); err != nil {
		t.Fatal(err)
	}
	placed("hv2")
}
