package cli

import (
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// TestRatesBetween computes rates of what went on, was started again, or is only in one look.
func TestRatesBetween(t *testing.T) {
	t.Parallel()
	ids := map[string]seedbed.InstanceID{}
	for _, name := range []string{"web1", "new", "again", "gone"} {
		ids[name] = seedbed.NewInstanceID()
	}
	look := func(second int, of map[string]seedbed.DomainUsage) wire.Usage {
		n := wire.NodeUsage{Node: "hv1", At: time.Unix(int64(second), 0)}
		for name, u := range of {
			u.ID = ids[name]
			n.Instances = append(n.Instances, wire.InstanceUsage{Name: name, Project: "default", DomainUsage: u})
		}
		return wire.Usage{Nodes: []wire.NodeUsage{n}}
	}
	got := RatesBetween(
		look(10, map[string]seedbed.DomainUsage{
			"web1":  {CPU: time.Minute, DiskRead: 10 * seedbed.MiB, DiskWritten: seedbed.GiB, Reads: 100, Sent: seedbed.KiB, Received: seedbed.MiB},
			"again": {CPU: time.Hour}, "gone": {CPU: time.Second}}),
		look(14, map[string]seedbed.DomainUsage{
			"web1": {CPU: time.Minute + 6*time.Second, VCPUs: 2, Memory: seedbed.GiB, Used: 100 * seedbed.MiB, Resident: 200 * seedbed.MiB,
				DiskRead: 14 * seedbed.MiB, DiskWritten: seedbed.GiB, Reads: 120, Sent: 5 * seedbed.KiB, Received: 0},
			"again": {CPU: time.Second}, "new": {CPU: time.Second}}))
	want := InstanceRates{"web1", "default", "hv1", 2, Rates{
		CPU: 1.5, Memory: seedbed.GiB, Used: 100 * seedbed.MiB, Resident: 200 * seedbed.MiB,
		DiskRead: seedbed.MiB, Requests: 5, Sent: seedbed.KiB}}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	cells := RateCells(want.Rates)
	for i, want := range []string{"150.0%", "100.0MiB of 1.0GiB", "200.0MiB", "1.0MiB/s", "0B/s", "5/s", "0B/s", "1.0KiB/s"} {
		if cells[i] != want {
			t.Errorf("%s is %q, want %q", RateHead[i], cells[i], want)
		}
	}
}
