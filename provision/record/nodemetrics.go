package record

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seedbed"
)

// Nodes lists the nodes, and what their instances were allotted.
type Nodes interface {
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	NodeUse(ctx context.Context) ([]seedbed.NodeUse, error)
}

// NodeMetrics exports the nodes to Prometheus: what their workers reported last, and what their
// instances were allotted.
type NodeMetrics struct{ nodes Nodes }

// NewNodeMetrics makes a collector.
func NewNodeMetrics(nodes Nodes) NodeMetrics { return NodeMetrics{nodes} }

// nodeScrape limits the time of one read of the database.
const nodeScrape = 5 * time.Second

// nodeGauge is one metric of a node.
type nodeGauge struct {
	desc  *prometheus.Desc
	value func(n seedbed.Node, u seedbed.NodeUse, now time.Time) float64
	// reported is set if a node has the metric only after it has reported.
	reported bool
}

var nodeGauges = []nodeGauge{
	{nodeDesc("up", "Whether the node's worker answers."), func(n seedbed.Node, _ seedbed.NodeUse, now time.Time) float64 {
		return oneIf(!n.Gone(now))
	}, false},
	{nodeDesc("cordoned", "Whether the node is given no new instances."), func(n seedbed.Node, _ seedbed.NodeUse, _ time.Time) float64 {
		return oneIf(n.Cordoned)
	}, false},
	{nodeDesc("instances", "Instances on the node, in any state."), func(_ seedbed.Node, u seedbed.NodeUse, _ time.Time) float64 {
		return float64(u.Instances)
	}, false},
	{nodeDesc("vcpus_allocated", "vCPUs of the node's instances."), func(_ seedbed.Node, u seedbed.NodeUse, _ time.Time) float64 {
		return float64(u.VCPUs)
	}, false},
	{nodeDesc("memory_allocated_bytes", "Memory of the node's instances."), func(_ seedbed.Node, u seedbed.NodeUse, _ time.Time) float64 {
		return float64(u.Memory)
	}, false},
	{nodeDesc("report_age_seconds", "Time since the node's worker answered last."),
		func(n seedbed.Node, _ seedbed.NodeUse, now time.Time) float64 {
			return max(0, now.Sub(n.Seen).Seconds())
		}, true},
	{nodeDesc("cpus", "CPUs of the node."), func(n seedbed.Node, _ seedbed.NodeUse, _ time.Time) float64 { return float64(n.Report.CPUs) },
		true},
	{nodeDesc("load", "Load average of the node over a minute."),
		func(n seedbed.Node, _ seedbed.NodeUse, _ time.Time) float64 { return n.Report.Load }, true},
	{nodeDesc("memory_bytes", "Memory of the node."),
		func(n seedbed.Node, _ seedbed.NodeUse, _ time.Time) float64 { return float64(n.Report.Memory) }, true},
	{nodeDesc("memory_free_bytes", "Memory of the node that could be given to guests."),
		func(n seedbed.Node, _ seedbed.NodeUse, _ time.Time) float64 {
			return float64(n.Report.MemoryFree)
		}, true},
}

func nodeDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("seedbed_node_"+name, help, []string{"node"}, nil)
}

// Describe implements prometheus.Collector.
func (m NodeMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range nodeGauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m NodeMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), nodeScrape)
	defer cancel()
	nodes, err := m.nodes.Nodes(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(nodeGauges[0].desc, err)
		return
	}
	all, err := m.nodes.NodeUse(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(nodeGauges[0].desc, err)
		return
	}
	use := map[string]seedbed.NodeUse{}
	for _, u := range all {
		use[u.Node] = u
	}
	now := time.Now()
	for _, n := range nodes {
		for _, g := range nodeGauges {
			if !g.reported || !n.Seen.IsZero() {
				ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(n, use[n.Name], now), n.Name)
			}
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
