package api

import (
	"context"
	"maps"
	"slices"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// hypervisor is this host, or another that has instances, and what they take.
type hypervisor struct {
	Name string `json:"name"`
	// Control is whether the seedbedd that answers runs there.
	Control   bool          `json:"control"`
	Instances int           `json:"instances"`
	Running   int           `json:"running"`
	VCPUs     int           `json:"vcpus"`
	Memory    seedbed.Bytes `json:"memory"`
}

func (r *router) hypervisors(ctx context.Context, c *fiber.Ctx) error {
	census, err := r.Store.Census(ctx, time.Now().UTC())
	if err != nil {
		return err
	}
	known := map[string]hypervisor{r.Node: {Name: r.Node, Control: true}}
	for _, n := range census.Instances {
		h := known[n.Node]
		h.Name, h.Instances, h.VCPUs, h.Memory = n.Node, h.Instances+n.Count, h.VCPUs+n.VCPUs, h.Memory+n.Memory
		if n.State == seedbed.InstanceRunning {
			h.Running += n.Count
		}
		known[n.Node] = h
	}
	all := make([]hypervisor, 0, len(known))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		all = append(all, known[name])
	}
	return reply(c, fiber.StatusOK, all)
}
