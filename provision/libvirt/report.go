//go:build libvirt

package libvirt

import (
	"context"
	"fmt"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// hostFor is how long reports cache what is known of the host: asking for libvirt's capabilities
// can take seconds, and reports are frequent.
const hostFor = 10 * time.Minute

// found caches what is known of the host.
type found struct {
	arch, hypervisor string
	at               time.Time
}

// Report implements worker.Inspector. Processors and memory come from libvirt (virNodeGetInfo); the
// load and the free memory come from the kernel.
func (d *Driver) Report(ctx context.Context) (seedbed.NodeReport, error) {
	return call(ctx, d, "report on the host", "", func(_ context.Context, conn *lv.Connect) (r seedbed.NodeReport, err error) {
		node, err := conn.GetNodeInfo()
		if err != nil {
			return r, err
		}
		domains, err := conn.NumOfDomains()
		if err != nil {
			return r, err
		}
		is, err := d.machine(conn)
		if err != nil {
			return r, err
		}
		usage, err := ReadUsage()
		if err != nil {
			return r, err
		}
		memory := seedbed.Bytes(node.Memory) * seedbed.KiB
		return seedbed.NodeReport{
			CPUs: int(node.Cpus), Load: usage.Load, Memory: memory, MemoryFree: min(usage.MemoryFree, memory), Domains: domains,
			Arch: is.arch, Hypervisor: is.hypervisor, Pools: []seedbed.PoolInfo{},
		}, nil
	})
}

// machine returns what is known of the host, from the cache if it is recent.
func (d *Driver) machine(conn *lv.Connect) (found, error) {
	d.mu.Lock()
	is := d.found
	d.mu.Unlock()
	if !is.at.IsZero() && time.Since(is.at) < hostFor {
		return is, nil
	}
	host, err := d.host(conn)
	if err != nil {
		return found{}, err
	}
	kind, err := conn.GetType()
	if err != nil {
		return found{}, err
	}
	version, err := conn.GetVersion()
	if err != nil {
		return found{}, err
	}
	is = found{arch: host.Arch, hypervisor: fmt.Sprintf("%s %s (%s)", kind, dotted(version), host.DomainType), at: time.Now()}
	d.mu.Lock()
	d.found = is
	d.mu.Unlock()
	return is, nil
}
