package drivertest

import (
	"context"
	"time"

	"seedbed"
)

// DomainUsage implements worker.Inspector: each domain has used a second for each look at it, and 64 MiB of its memory.
func (h *Hypervisor) DomainUsage(ctx context.Context) (all []seedbed.DomainUsage, err error) {
	return all, h.effect(ctx, "DomainUsage", func() error {
		for id, d := range h.domains {
			if d.foreign || d.state != seedbed.DomainRunning {
				continue
			}
			d.looks++
			all = append(all, seedbed.DomainUsage{ID: id, CPU: time.Duration(d.looks) * time.Second, VCPUs: d.spec.VCPUs, Memory: d.spec.Memory,
				Resident: 64 * seedbed.MiB})
		}
		return nil
	})
}
