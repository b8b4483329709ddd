package pvc

import (
	"context"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// clusterStatus is a cluster as PVC's client shows it. Values that Seedbed does not have (OSDs,
// faults) are 0 or empty.
type clusterStatus struct {
	Name        string                `json:"cluster_name"`
	Health      clusterHealth         `json:"cluster_health"`
	NodeHealth  map[string]nodeHealth `json:"node_health"`
	Maintenance string                `json:"maintenance"`
	Primary     string                `json:"primary_node"`
	Version     string                `json:"pvc_version"`
	UpstreamIP  string                `json:"upstream_ip"`
	Nodes       map[string]int        `json:"nodes"`
	VMs         map[string]int        `json:"vms"`
	Networks    int                   `json:"networks"`
	OSDs        map[string]int        `json:"osds"`
	Pools       int                   `json:"pools"`
	Volumes     int                   `json:"volumes"`
	Snapshots   int                   `json:"snapshots"`
	Resources   clusterResources      `json:"resources"`
	Detail      map[string][]any      `json:"detail"`
}

// clusterHealth is a percentage, with the problems found.
type clusterHealth struct {
	Health   int             `json:"health"`
	Messages []healthMessage `json:"messages"`
}

type healthMessage struct {
	ID    string `json:"id"`
	Delta int    `json:"health_delta"`
	Text  string `json:"text"`
}

type nodeHealth struct {
	Health   int      `json:"health"`
	Messages []string `json:"messages"`
}

type clusterResources struct {
	Memory struct {
		Total       int64   `json:"total"`
		Free        int64   `json:"free"`
		Used        int64   `json:"used"`
		Allocated   int64   `json:"allocated"`
		Provisioned int64   `json:"provisioned"`
		Utilization float64 `json:"utilization"`
	} `json:"memory"`
	CPU struct {
		Total       int     `json:"total"`
		Load        float64 `json:"load"`
		Allocated   int     `json:"allocated"`
		Utilization float64 `json:"utilization"`
	} `json:"cpu"`
	Disk struct {
		Total       int64   `json:"total"`
		Used        int64   `json:"used"`
		Free        int64   `json:"free"`
		Utilization float64 `json:"utilization"`
	} `json:"disk"`
}

// vmStates maps the states of instances to PVC's words.
var vmStates = map[seedbed.InstanceState]string{
	seedbed.InstanceProvisioning: "provision", seedbed.InstanceRunning: "start", seedbed.InstanceStopped: "stop",
	seedbed.InstanceRemoving: "disable", seedbed.InstanceGone: "fail", seedbed.InstanceFailed: "fail",
}

func (r *router) status(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	census, err := r.Store.Counts(ctx, seedbed.AllProjects(), time.Now())
	if err != nil {
		return err
	}
	nodes, err := r.Statuses(ctx)
	if err != nil {
		return err
	}
	pools, err := r.PoolNames(ctx)
	if err != nil {
		return err
	}
	health := r.clusterHealth(ctx)
	maintained, err := r.Store.Maintained(ctx)
	if err != nil {
		return err
	}
	s := clusterStatus{
		Name: r.Node, Health: health, NodeHealth: map[string]nodeHealth{},
		Maintenance: strconv.FormatBool(maintained), Primary: r.Node, Version: r.Version, Nodes: map[string]int{"total": len(nodes)},
		VMs: map[string]int{"total": census.Total().Count}, Networks: census.Networks,
		Volumes: census.Volumes, OSDs: map[string]int{"total": 0}, Pools: len(pools),
		Detail: map[string][]any{"node": {}, "vm": {}, "osd": {}, "faults": {}},
	}
	for _, n := range census.Instances {
		s.VMs[vmStates[n.State]] += n.Count
	}
	all, running := census.Total(), census.Total(seedbed.InstanceRunning)
	s.Resources.Memory.Provisioned, s.Resources.Memory.Allocated = int64(all.Memory/seedbed.MiB), int64(running.Memory/seedbed.MiB)
	s.Resources.CPU.Allocated = all.VCPUs
	for _, n := range nodes {
		row := r.nodeRowOf(n)
		s.Nodes[row.DaemonState+","+row.DomainState]++
		s.NodeHealth[n.Name] = nodeHealth{row.Health, server.Each(row.HealthDetails, func(c nodeCheck) string { return c.Message })}
		if n.Control {
			s.NodeHealth[n.Name] = nodeHealth{min(row.Health, health.Health), []string{}}
		}
	}
	s.Resources.add(nodes)
	return server.Reply(c, fiber.StatusOK, s)
}

// add sums the resources of the nodes: memory in MiB, disks in KiB as PVC has them of Ceph's OSDs. A
// pool that nodes share counts once.
func (u *clusterResources) add(nodes []seedbed.NodeStatus) {
	mb := func(b seedbed.Bytes) int64 { return int64(b / seedbed.MiB) }
	shared := map[string]bool{}
	for _, n := range nodes {
		u.Memory.Total, u.Memory.Free = u.Memory.Total+mb(n.Report.Memory), u.Memory.Free+mb(n.Report.MemoryFree)
		u.CPU.Total, u.CPU.Load = u.CPU.Total+n.Report.CPUs, u.CPU.Load+n.Report.Load
		for _, p := range n.Report.Pools {
			if p.Shared && shared[p.Name] {
				continue
			}
			shared[p.Name] = p.Shared
			u.Disk.Total, u.Disk.Free = u.Disk.Total+int64(p.Size/seedbed.KiB), u.Disk.Free+int64(p.Free/seedbed.KiB)
		}
	}
	u.Memory.Used, u.Disk.Used = u.Memory.Total-u.Memory.Free, u.Disk.Total-u.Disk.Free
	u.Memory.Utilization, u.Disk.Utilization =
		percent(float64(u.Memory.Used), float64(u.Memory.Total)), percent(float64(u.Disk.Used), float64(u.Disk.Total))
	u.CPU.Utilization = percent(u.CPU.Load, float64(u.CPU.Total))
}

// percent returns part as a percentage of all, or 0 if all is 0.
func percent(part, all float64) float64 {
	if all == 0 {
		return 0
	}
	return 100 * part / all
}

// clusterHealth returns the percentage of the doctor's checks that found no problem.
func (r *router) clusterHealth(ctx context.Context) clusterHealth {
	ctx, cancel := context.WithTimeout(ctx, server.StatusTimeout)
	defer cancel()
	checks := r.Examine(ctx)
	h := clusterHealth{100, []healthMessage{}}
	for _, ch := range checks {
		if !ch.OK {
			h.Messages = append(h.Messages,
				healthMessage{strings.ToUpper(strings.ReplaceAll(ch.Name, " ", "_")), 100 / len(checks), ch.Name + ": " + ch.Detail})
		}
	}
	if len(checks) > 0 {
		h.Health = 100 * (len(checks) - len(h.Messages)) / len(checks)
	}
	return h
}

// setMaintenance switches the maintenance mode: while it is on, no lost node is fenced by itself, as in PVC.
func (r *router) setMaintenance(ctx context.Context, c *fiber.Ctx, f *fields) error {
	const choice = "A valid state must be specified."
	state := strings.ToLower(f.must("state", choice))
	switch {
	case f.err != nil:
		return f.err
	case state != "true" && state != "false":
		return &refusal{status: fiber.StatusBadRequest, message: map[string]string{"state": choice}}
	}
	mode := "normal mode"
	if state == "true" {
		mode = "maintenance mode"
	}
	already, err := r.Store.SetMaintained(ctx, state == "true")
	switch {
	case err != nil:
		return err
	case already:
		return say(c, "Cluster is already in %s", mode)
	}
	return say(c, "Successfully set cluster in %s", mode)
}

func (r *router) primaryNode(_ context.Context, c *fiber.Ctx, _ *fields) error {
	return server.Reply(c, fiber.StatusOK, struct {
		Node string `json:"primary_node"`
	}{r.Node})
}
