package seedbed_test

import (
	"errors"
	"testing"

	"seedbed"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want string // the message; empty if it passes
	}{
		{"least vcpus", seedbed.CheckVCPUs(1), ""},
		{"most vcpus", seedbed.CheckVCPUs(seedbed.MaxVCPUs), ""},
		{"no vcpus", seedbed.CheckVCPUs(0), "vcpus is out of range: expected 1 to 255"},
		{"many vcpus", seedbed.CheckVCPUs(256), "vcpus is out of range: expected 1 to 255"},
		{"least memory", seedbed.CheckMemory(64 * seedbed.MiB), ""},
		{"most memory", seedbed.CheckMemory(64 * seedbed.TiB), ""},
		{"little memory", seedbed.CheckMemory(63 * seedbed.MiB), "memory is 63MiB: expected 64MiB to 64TiB"},
		{"much memory", seedbed.CheckMemory(65 * seedbed.TiB), "memory is 65TiB: expected 64MiB to 64TiB"},
		{"odd memory", seedbed.CheckMemory(64*seedbed.MiB + 1), "memory is 67108865: expected a multiple of 1MiB"},
		{"the image's disk", seedbed.CheckDisk("disk", 0), ""},
		{"largest disk", seedbed.CheckDisk("disk", 64*seedbed.TiB), ""},
		{"larger disk", seedbed.CheckDisk("disk_size", 65*seedbed.TiB), "disk_size is 65TiB: expected at most 64TiB"},
		{"negative disk", seedbed.CheckDisk("disk", -512), "disk is -512: expected at most 64TiB"},
		{"odd disk", seedbed.CheckDisk("disk", 1000), "disk is 1000: expected a multiple of 512 bytes, a disk's sector"},
	} {
		if test.want == "" && test.err != nil || test.want != "" && (!errors.Is(test.err, seedbed.ErrInvalid) || test.err.Error() != test.want) {
			t.Errorf("%s: %v, want %q", test.name, test.err, test.want)
		}
	}
}
