package api

import (
	"context"
	"maps"
	"slices"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// nodeRow is a node as PVC shows it. What Seedbed does not measure is 0 or "N/A".
type nodeRow struct {
	Name             string            `json:"name"`
	DaemonState      string            `json:"daemon_state"`
	CoordinatorState string            `json:"coordinator_state"`
	DomainState      string            `json:"domain_state"`
	Version          string            `json:"pvc_version"`
	CPUs             int               `json:"cpu_count"`
	Kernel           string            `json:"kernel"`
	OS               string            `json:"os"`
	Arch             string            `json:"arch"`
	Health           int               `json:"health"`
	HealthPlugins    []string          `json:"health_plugins"`
	HealthDetails    []nodeCheck       `json:"health_details"`
	Load             float64           `json:"load"`
	Domains          int               `json:"domains_count"`
	Running          []string          `json:"running_domains"`
	VCPU             nodeVCPU          `json:"vcpu"`
	Memory           nodeMemory        `json:"memory"`
	Interfaces       map[string]string `json:"interfaces"`
}

type nodeCheck struct {
	Name    string `json:"name"`
	LastRun int64  `json:"last_run"`
	Delta   int    `json:"health_delta"`
	Message string `json:"message"`
}

type nodeVCPU struct {
	Total     int `json:"total"`
	Allocated int `json:"allocated"`
}

type nodeMemory struct {
	Total       int64 `json:"total"`
	Allocated   int64 `json:"allocated"`
	Provisioned int64 `json:"provisioned"`
	Used        int64 `json:"used"`
	Free        int64 `json:"free"`
}

const noNode = "Node not found."

func (r *router) nodeRoutes(p string, get routing) {
	get(p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		m := f.match()
		states := map[string]func(nodeRow) string{
			"daemon_state":      func(n nodeRow) string { return n.DaemonState },
			"coordinator_state": func(n nodeRow) string { return n.CoordinatorState },
			"domain_state":      func(n nodeRow) string { return n.DomainState },
		}
		wanted := map[string]string{}
		for name := range states {
			if want := f.text(name); want != "" {
				wanted[name] = want
			}
		}
		if f.err != nil {
			return f.err
		}
		all, err := r.nodes(ctx)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(n nodeRow) bool {
			taken := len(wanted) == 0
			for name, want := range wanted { // one of them is enough, as PVC has it
				taken = taken || states[name](n) == want
			}
			return !taken || !m.Matches(n.Name)
		})
		return rows(c, all, func(n nodeRow) nodeRow { return n }, noNode)
	})
	get(p+"/:node", r.shownNode(func(n nodeRow) any { return []nodeRow{n} }))
	get(p+"/:node/daemon-state", r.shownNode(func(n nodeRow) any {
		return map[string]string{"name": n.Name, "daemon_state": n.DaemonState}
	}))
	get(p+"/:node/coordinator-state", r.shownNode(func(n nodeRow) any {
		return map[string]string{"name": n.Name, "coordinator_state": n.CoordinatorState}
	}))
	get(p+"/:node/domain-state", r.shownNode(func(n nodeRow) any {
		return map[string]string{"name": n.Name, "domain_state": n.DomainState}
	}))
}

// shownNode answers one form of the node that the path names.
func (r *router) shownNode(form func(nodeRow) any) pvcHandler {
	return func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		all, err := r.nodes(ctx)
		if err != nil {
			return err
		}
		name := param(c, "node")
		at := slices.IndexFunc(all, func(n nodeRow) bool { return n.Name == name })
		if at < 0 {
			return refused(fiber.StatusNotFound, noNode)
		}
		return reply(c, fiber.StatusOK, form(all[at]))
	}
}

// nodes are this one and those that have instances, by name.
func (r *router) nodes(ctx context.Context) ([]nodeRow, error) {
	instances, err := r.Store.Instances(ctx)
	if err != nil {
		return nil, err
	}
	health := r.clusterHealth(ctx)
	known := map[string]*nodeRow{}
	row := func(name string) *nodeRow {
		if known[name] == nil {
			known[name] = &nodeRow{Name: name, DaemonState: "run", CoordinatorState: "client", DomainState: "ready", Version: r.Version,
				Kernel: unknown, OS: unknown, Arch: unknown, Health: 100}
		}
		return known[name]
	}
	here := row(r.Node)
	here.CoordinatorState, here.Health = "primary", health.Health
	for _, m := range health.Messages {
		here.HealthPlugins = append(here.HealthPlugins, m.ID)
		here.HealthDetails = append(here.HealthDetails, nodeCheck{Name: m.ID, Delta: m.Delta, Message: m.Text})
	}
	for _, i := range instances {
		n := row(i.Node)
		mb := int64(i.Memory / seedbed.MiB)
		n.Memory.Provisioned += mb
		n.VCPU.Allocated += i.VCPUs
		if i.State == seedbed.InstanceRunning {
			n.Memory.Allocated += mb
			n.Domains++
			n.Running = append(n.Running, string(i.ID))
		}
	}
	var all []nodeRow
	for _, name := range slices.Sorted(maps.Keys(known)) {
		all = append(all, *known[name])
	}
	return all, nil
}
