package placement

import (
	"slices"
	"testing"

	"seedbed"
)

// uneven are three nodes of 32 GiB: hv1 has four instances of 6 GiB and 2 vCPUs, hv2 one, and hv3 none.
func uneven() (snapshot, []Demand) {
	p := snapshot{use: map[string]seedbed.NodeUse{}, members: map[seedbed.GroupMember]int{}}
	for _, n := range []string{"hv1", "hv2", "hv3"} {
		p.nodes = append(p.nodes, seedbed.Node{Name: n, Seen: noon, Report: seedbed.NodeReport{CPUs: 8, Memory: 32 * seedbed.GiB}})
	}
	var all []Demand
	for i, n := range []string{"hv1", "hv1", "hv1", "hv1", "hv2"} {
		w := Demand{ID: member(i), From: n, VCPUs: 2, Memory: 6 * seedbed.GiB}
		u := p.use[n]
		u.Node, u.Instances, u.VCPUs, u.Memory = n, u.Instances+1, u.VCPUs+w.VCPUs, u.Memory+w.Memory
		p.use[n] = u
		all = append(all, w)
	}
	return p, all
}

func TestRebalance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*snapshot, []Demand)
		by     string
		most   int
		want   []Move
		after  []float64
	}{
		{"few moves", nil, seedbed.BalanceMemory, 10, []Move{{0, "hv3"}, {1, "hv2"}}, []float64{37.5, 37.5, 18.75}},
		{"by vCPUs", nil, seedbed.BalanceVCPUs, 10, []Move{{0, "hv3"}, {1, "hv2"}}, []float64{50, 50, 25}},
		{"one at most", nil, seedbed.BalanceMemory, 1, []Move{{0, "hv3"}}, []float64{56.25, 18.75, 18.75}},
		{"a cordoned node takes and gives nothing", func(p *snapshot, _ []Demand) { p.nodes[2].Cordoned = true }, seedbed.BalanceMemory, 10,
			[]Move{{0, "hv2"}}, []float64{56.25, 37.5}},
		{"a node that is away", func(p *snapshot, _ []Demand) { p.nodes[0].Problem = "no answer" }, seedbed.BalanceMemory, 10, nil,
			[]float64{18.75, 0}},
		{"limited to its node", func(_ *snapshot, all []Demand) {
			for i := range all {
				all[i].Limit = []string{"hv1"}
			}
		}, seedbed.BalanceMemory, 10, nil, []float64{75, 18.75, 0}},
		{"kept apart", func(p *snapshot, all []Demand) {
			for i := range all[:4] {
				all[i].Group, all[i].Policy = "web", seedbed.AntiAffinity
			}
			p.members[seedbed.GroupMember{Group: "web", Instance: "elsewhere", Node: "hv3"}] = 1
			for i := range all[:4] {
				p.members[seedbed.GroupMember{Group: "web", Instance: all[i].ID, Node: "hv1"}] = 1
			}
		}, seedbed.BalanceMemory, 10, []Move{{0, "hv2"}, {4, "hv3"}}, []float64{56.25, 18.75, 18.75}},
		{"balanced", func(p *snapshot, _ []Demand) {
			for _, n := range []string{"hv1", "hv2", "hv3"} {
				p.use[n] = seedbed.NodeUse{Node: n, Memory: 20 * seedbed.GiB}
			}
		}, seedbed.BalanceMemory, 10, nil, []float64{62.5, 62.5, 62.5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, all := uneven()
			if test.change != nil {
				test.change(&p, all)
			}
			moves, loads, err := placerOf(p, Config{MemoryOvercommit: 1}).Rebalance(t.Context(), test.by, test.most, all)
			var after []float64
			for _, l := range loads {
				after = append(after, l.After)
			}
			if err != nil || !slices.Equal(moves, test.want) || !slices.Equal(after, test.after) {
				t.Errorf("%v, %v, %v; want %v, %v", moves, after, err, test.want, test.after)
			}
		})
	}
}
