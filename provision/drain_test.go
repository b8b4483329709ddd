package provision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"seedbed"
)

// TestDrainOfGroups empties nodes in turn, each by jobs at the same time and in any order, as seedbed node drain does. Whatever the order,
// no two instances that are to be apart are on one node at any moment, those that are to be together end on one node, and only an
// instance that its group keeps from each other node stays.
func TestDrainOfGroups(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	all := []string{testNode, otherNode, "node-c"}
	f := l.withNodes(true, all[1:]...)
	for group, policy := range map[string]seedbed.PlacementPolicy{"pair": seedbed.Affinity, "apart": seedbed.AntiAffinity} {
		_, err := l.db.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: group, Policy: policy})
		l.ok(err)
	}
	group := map[string]string{"web1": "pair", "web2": "pair", "web3": "apart", "web4": "apart", "web5": ""}
	for _, name := range []string{"web1", "web2", "web3", "web4", "web5"} {
		params := map[string]any{}
		if group[name] != "" {
			params["placement_group"] = group[name]
		}
		l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: name, Profile: "small", Params: params}, nil)),
			seedbed.JobSucceeded)
	}
	cordon := func(node string, is bool) {
		_, err := l.db.ChangeNode(ctx, node, func(n *seedbed.Node) error { n.Cordoned = is; return nil })
		l.ok(err)
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range f.list {
			if f.list[i].Name == node {
				f.list[i].Cordoned = is
			}
		}
	}
	// apart checks that no node has two instances that are to be apart, those on their way included.
	apart := func() {
		t.Helper()
		now, err := l.db.Instances(ctx)
		l.ok(err)
		on := map[string]string{}
		for _, i := range now {
			for _, node := range []string{i.Node, i.Target} {
				if i.PlacementGroup == "apart" && node != "" {
					if other := on[node]; other != "" && other != i.Name {
						t.Errorf("%s and %s are on node %s", other, i.Name, node)
					}
					on[node] = i.Name
				}
			}
		}
	}
	p := l.start()
	defer p.stop()
	rng := rand.New(rand.NewPCG(7, 0))
	for round := range 6 {
		node := all[round%len(all)]
		cordon(node, true)
		here, err := l.db.ListInstances(ctx, seedbed.InstanceQuery{Node: node, Scope: seedbed.AllProjects()})
		l.ok(err)
		rng.Shuffle(len(here), func(i, j int) { here[i], here[j] = here[j], here[i] })
		var jobs []seedbed.JobID
		for _, i := range here {
			receipt, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoMigrate, Name: i.Name,
				Params: map[string]any{"method": seedbed.MigrateLive, "stay": true}}, nil)
			l.ok(err)
			jobs = append(jobs, receipt.Job)
			apart()
		}
		for _, id := range jobs {
			l.wait(id, seedbed.JobSucceeded)
			apart()
		}
		now, err := l.db.Instances(ctx)
		l.ok(err)
		var places []string
		at := map[string]string{}
		for _, i := range now {
			at[i.Name] = i.Node
			places = append(places, fmt.Sprintf("%s on %s", i.Name, i.Node))
			if i.Node == node {
				t.Errorf("round %d: %s is still on node %s", round, i.Name, node)
			}
		}
		slices.Sort(places)
		if at["web1"] != at["web2"] || at["web3"] == at["web4"] {
			t.Errorf("round %d: %v", round, places)
		}
		cordon(node, false)
	}
	// With one more than there are other nodes, the one of the drained node stays, and the message names its group.
	l.wait(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web6", Profile: "small",
		Params: map[string]any{"placement_group": "apart"}}, nil)), seedbed.JobSucceeded)
	cordon(testNode, true)
	here, err := l.db.ListInstances(ctx, seedbed.InstanceQuery{Node: testNode, Scope: seedbed.AllProjects()})
	l.ok(err)
	refused := 0
	for _, i := range here {
		if _, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoMigrate, Name: i.Name,
			Params: map[string]any{"method": seedbed.MigrateLive}}, nil); err != nil {
			if refused++; i.PlacementGroup != "apart" {
				t.Errorf("%s stays: %v", i.Name, err)
			}
		}
	}
	if apart(); refused != 1 {
		t.Errorf("%d instances stay, want the one that is to be apart", refused)
	}
}
