//go:build integration && libvirt

package libvirt_test

import (
	"errors"
	"testing"

	"seedbed"
)

// TestDiskGrowsWhileTheGuestRuns holds that QEMU makes a disk larger that it has
// open, that once more changes nothing, and that no disk gets smaller.
func TestDiskGrowsWhileTheGuestRuns(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d, disk := open(t, system), seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)}
	spec := newSpec(t, base, disk)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	size := func() seedbed.Bytes {
		t.Helper()
		dom, err := base.LookupDomainByUUIDString(string(spec.ID))
		must("look up", err)
		defer dom.Free()
		info, err := dom.GetBlockInfo("vda", 0)
		must("size of the disk", err)
		return seedbed.Bytes(info.Capacity)
	}
	must("define", d.DefineDomain(t.Context(), spec))
	defer remove(t, d, spec.ID)
	must("resize the domain", d.ResizeDomain(t.Context(), spec.ID, 2, 256*seedbed.MiB))
	must("grow while it is off", d.ResizeDisk(t.Context(), spec.ID, disk, 32*seedbed.MiB))
	must("start", d.StartDomain(t.Context(), spec.ID))
	if got := size(); got != 16*seedbed.MiB {
		t.Fatalf("the driver has touched the disk of a domain that is off: %s", got)
	}
	for range 2 {
		must("grow", d.ResizeDisk(t.Context(), spec.ID, disk, 32*seedbed.MiB))
		if got := size(); got != 32*seedbed.MiB {
			t.Fatalf("the guest's disk has %s; want 32MiB", got)
		}
	}
	if err := d.ResizeDisk(t.Context(), spec.ID, disk, 16*seedbed.MiB); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("shrink: %v; want ErrInvalid", err)
	}
	if got := size(); got != 32*seedbed.MiB {
		t.Errorf("once refused it has %s", got)
	}
	dom, err := base.LookupDomainByUUIDString(string(spec.ID))
	must("look up", err)
	defer dom.Free()
	info, err := dom.GetInfo()
	must("ask", err)
	if info.NrVirtCpu != 2 || seedbed.Bytes(info.MaxMem)*seedbed.KiB != 256*seedbed.MiB {
		t.Errorf("it runs with %d vcpus and %d KiB", info.NrVirtCpu, info.MaxMem)
	}
}
