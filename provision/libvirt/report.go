//go:build libvirt

package libvirt

import (
	"context"
	"fmt"
	"net"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// hostInfoTime is how long reports cache what is known of the host: asking for libvirt's capabilities
// can take seconds, and reports are frequent.
const hostInfoTime = 10 * time.Minute

// hostInfo caches what is known of the host.
type hostInfo struct {
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
		info, err := d.hostInfo(conn)
		if err != nil {
			return r, err
		}
		usage, err := ReadUsage()
		if err != nil {
			return r, err
		}
		highest, err := highestNIC()
		if err != nil {
			return r, err
		}
		memory := seedbed.Bytes(node.Memory) * seedbed.KiB
		return seedbed.NodeReport{
			CPUs: int(node.Cpus), Load: usage.Load, Memory: memory, MemoryFree: min(usage.MemoryFree, memory), Domains: domains,
			Arch: info.arch, Hypervisor: info.hypervisor, Pools: []seedbed.PoolInfo{}, HighestNIC: highest,
		}, nil
	})
}

// hostInfo returns what is known of the host, from the cache if it is recent.
func (d *Driver) hostInfo(conn *lv.Connect) (hostInfo, error) {
	d.mu.Lock()
	info := d.cachedInfo
	d.mu.Unlock()
	if !info.at.IsZero() && time.Since(info.at) < hostInfoTime {
		return info, nil
	}
	host, err := d.host(conn)
	if err != nil {
		return hostInfo{}, err
	}
	kind, err := conn.GetType()
	if err != nil {
		return hostInfo{}, err
	}
	version, err := conn.GetVersion()
	if err != nil {
		return hostInfo{}, err
	}
	info = hostInfo{arch: host.Arch, hypervisor: fmt.Sprintf("%s %s (%s)", kind, dotted(version), host.DomainType), at: time.Now()}
	d.mu.Lock()
	d.cachedInfo = info
	d.mu.Unlock()
	return info, nil
}

// highestNIC returns the highest number of an interface of a guest on this host, or 0. The guest may
// be one that the database does not know, as after an older copy of it was put back.
func highestNIC() (highest seedbed.NICID, _ error) {
	all, err := net.Interfaces()
	if err != nil {
		return 0, fmt.Errorf("list the interfaces of guests: %w", err)
	}
	for _, i := range all {
		if id, ok := seedbed.NICOfTap(i.Name); ok {
			highest = max(highest, id)
		}
	}
	return highest, nil
}
