package seedbed

import "testing"

func TestSystemDisk(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "vda", 1: "vdb", 25: "vdz", 26: "vdaa", 27: "vdab", 701: "vdzz", 702: "vdaaa"} {
		for bus, prefix := range map[string]string{"": "vd", BusVirtio: "vd", BusSCSI: "sd"} {
			if got := (System{DiskBus: bus}).Disk(n); got != prefix+want[2:] {
				t.Errorf("disk %d on bus %q: %s, want %s", n, bus, got, prefix+want[2:])
			}
		}
	}
}
