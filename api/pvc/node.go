package pvc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// nodeRow is a node as PVC shows it, sizes in MiB. Values that Seedbed does not measure are "N/A".
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
	get(seedbed.ActionNodeRead, p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
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
			for name, want := range wanted { // one match is enough, as in PVC
				taken = taken || states[name](n) == want
			}
			return !taken || !m.Matches(n.Name)
		})
		return rows(c, all, func(n nodeRow) nodeRow { return n }, noNode)
	})
	get(seedbed.ActionNodeRead, p+"/:node", r.shownNode(func(n nodeRow) any { return []nodeRow{n} }))
	get(seedbed.ActionNodeRead, p+"/:node/daemon-state", r.shownNode(func(n nodeRow) any {
		return map[string]string{"name": n.Name, "daemon_state": n.DaemonState}
	}))
	get(seedbed.ActionNodeRead, p+"/:node/coordinator-state", r.shownNode(func(n nodeRow) any {
		return map[string]string{"name": n.Name, "coordinator_state": n.CoordinatorState}
	}))
	get(seedbed.ActionNodeRead, p+"/:node/domain-state", r.shownNode(func(n nodeRow) any {
		return map[string]string{"name": n.Name, "domain_state": n.DomainState}
	}))
}

// shownNode returns the handler that answers one form of the node that the path names.
func (r *router) shownNode(form func(nodeRow) any) handler {
	return func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		all, err := r.nodes(ctx)
		if err != nil {
			return err
		}
		name := server.Param(c, "node")
		at := slices.IndexFunc(all, func(n nodeRow) bool { return n.Name == name })
		if at < 0 {
			return refused(fiber.StatusNotFound, noNode)
		}
		return server.Reply(c, fiber.StatusOK, form(all[at]))
	}
}

// nodes returns the nodes by name, as their workers report them.
func (r *router) nodes(ctx context.Context) ([]nodeRow, error) {
	statuses, err := r.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	instances, err := r.Store.ListInstances(ctx, seedbed.InstanceQuery{Scope: seedbed.AllProjects()})
	if err != nil {
		return nil, err
	}
	health := r.clusterHealth(ctx)
	all := make([]nodeRow, 0, len(statuses))
	for _, s := range statuses {
		row := r.nodeRowOf(s)
		for _, i := range instances {
			if i.Node == s.Name && i.State == seedbed.InstanceRunning {
				row.Memory.Allocated += int64(i.Memory / seedbed.MiB)
				row.Running = append(row.Running, string(i.ID))
			}
		}
		if s.Control {
			row.CoordinatorState, row.Health = "primary", min(row.Health, health.Health)
			for _, m := range health.Messages {
				row.HealthPlugins = append(row.HealthPlugins, m.ID)
				row.HealthDetails = append(row.HealthDetails, nodeCheck{Name: m.ID, Delta: m.Delta, Message: m.Text})
			}
		}
		all = append(all, row)
	}
	return all, nil
}

// nodeRowOf returns a node without the fields that come from its instances and the doctor.
func (r *router) nodeRowOf(s seedbed.NodeStatus) nodeRow {
	mb := func(b seedbed.Bytes) int64 { return int64(b / seedbed.MiB) }
	report := s.Report
	row := nodeRow{
		Name: s.Name, DaemonState: "run", CoordinatorState: "client", DomainState: domainState(s), Version: r.Version,
		CPUs: report.CPUs, Kernel: unknown, OS: unknown, Arch: cmp.Or(report.Arch, unknown), Health: 100,
		Load: report.Load, Domains: report.Domains,
		VCPU: nodeVCPU{report.CPUs, s.VCPUs},
		Memory: nodeMemory{Total: mb(report.Memory), Provisioned: mb(s.Memory),
			Used: mb(report.Memory - report.MemoryFree), Free: mb(report.MemoryFree)},
	}
	if s.State == seedbed.NodeAway || s.State == seedbed.NodeFenced {
		why := cmp.Or(s.Problem, "it has not been heard of")
		row.DaemonState, row.Health = "dead", 0
		if s.State == seedbed.NodeFenced {
			row.DaemonState, why = "fenced", "it was fenced at "+s.Fencing.Fenced.Format(time.RFC3339)
		}
		row.HealthPlugins = []string{"worker"}
		row.HealthDetails = []nodeCheck{{Name: "worker", LastRun: seconds(s.Seen), Delta: 100, Message: "seedbed-worker does not answer: " + why}}
	}
	return row
}

// isNode reports whether a node of that name exists.
func (r *router) isNode(ctx context.Context, name string) bool {
	_, err := r.Store.Node(ctx, name)
	return err == nil
}

// domainState returns, in PVC's words, whether a node accepts instances. A flushed node has no
// instances and accepts none.
func domainState(s seedbed.NodeStatus) string {
	switch {
	case !s.Cordoned:
		return "ready"
	case s.Running > 0:
		return "flush"
	}
	return "flushed"
}

// seconds returns a time as Unix time, and 0 for the zero time.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
