package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seedbed"
)

// noted are nodes as a database lists them.
type noted struct {
	nodes []seedbed.Node
	use   []seedbed.NodeUse
	err   error
}

func (h *noted) Nodes(context.Context) ([]seedbed.Node, error) { return h.nodes, h.err }

func (h *noted) NodeUse(context.Context) ([]seedbed.NodeUse, error) { return h.use, h.err }

// TestNodeMetrics checks that every node has its gauges; a node that never reported only has those
// that need no report.
func TestNodeMetrics(t *testing.T) {
	t.Parallel()
	h := &noted{
		nodes: []seedbed.Node{
			{Name: "hv1", Seen: time.Now(), Report: seedbed.NodeReport{CPUs: 8, Load: 1.5, Memory: 64 * seedbed.KiB, MemoryFree: 32 * seedbed.KiB}},
			{Name: "hv2", Cordoned: true},
		},
		use: []seedbed.NodeUse{{Node: "hv1", Instances: 3, VCPUs: 6, Memory: 2 * seedbed.KiB}},
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewNodeMetrics(h))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got = append(got, fmt.Sprintf("%s %s %g", f.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
		}
	}
	for _, want := range []string{
		"seedbed_node_up hv1 1", "seedbed_node_up hv2 0", "seedbed_node_cordoned hv1 0", "seedbed_node_cordoned hv2 1",
		"seedbed_node_instances hv1 3", "seedbed_node_instances hv2 0",
		"seedbed_node_vcpus_allocated hv1 6", "seedbed_node_memory_allocated_bytes hv1 2048",
		"seedbed_node_cpus hv1 8", "seedbed_node_load hv1 1.5", "seedbed_node_memory_bytes hv1 65536", "seedbed_node_memory_free_bytes hv1 32768",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(got) != len(nodeGauges)+5 {
		t.Errorf("%d numbers:\n%s", len(got), strings.Join(got, "\n"))
	}
	h.err = errors.New("no database")
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), "no database") {
		t.Errorf("without the database: %v", err)
	}
}
