package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/cli"
)

// TestFormerNode checks that a removed node is shown without a worker.
func TestFormerNode(t *testing.T) {
	t.Parallel()
	shown := map[string]string{}
	for _, p := range nodePairs(new(cli.App),
		seedbed.NodeStatus{Node: seedbed.Node{Name: "gone", Problem: "it is not a node"}, State: seedbed.NodeAway, Instances: 2}) {
		if p[1] != "" {
			shown[p[0]] = p[1]
		}
	}
	want := map[string]string{"name": "gone", "state": "away", "problem": "it is not a node", "cordoned": "no", "control": "no",
		"instances": "2, 0 running", "vcpus allocated": "0", "memory allocated": "0.0GiB"}
	if d := cmp.Diff(want, shown); d != "" {
		t.Errorf("shown (-want +got):\n%s", d)
	}
}
