package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestStrangers checks which MACs are foreign: not those that Seedbed's instances have, or recently
// had and the neighbour table still knows.
func TestStrangers(t *testing.T) {
	t.Parallel()
	mac := func(n byte) seedbed.MAC { return seedbed.MAC{0x52, 0x54, 0, 0, 0, n} }
	taken := func(ns ...byte) (all []seedbed.TakenMAC) {
		for _, n := range ns {
			all = append(all, seedbed.TakenMAC{MAC: mac(n), By: fmt.Sprint("neighbour ", n)})
		}
		return all
	}
	ours := []seedbed.Instance{{NICs: []seedbed.NIC{{MAC: mac(1)}}}}
	var e Engine
	look := func() (by []string) {
		for n := range byte(4) {
			by = append(by, e.MACTaken("hv1", mac(n)))
		}
		return by
	}
	began := time.Now()
	for _, step := range []struct {
		at        time.Duration
		taken     []seedbed.TakenMAC
		instances []seedbed.Instance
		want      []string
	}{
		{0, taken(1, 2), ours, []string{"", "", "neighbour 2", ""}},
		{time.Minute, taken(1, 3), nil, []string{"", "", "", "neighbour 3"}},
		{ourOwn + time.Second, taken(1), nil, []string{"", "neighbour 1", "", ""}},
		{ourOwn + time.Minute, nil, nil, []string{"", "", "", ""}},
	} {
		e.foreign.note("hv1", step.taken, step.instances, began.Add(step.at))
		if d := cmp.Diff(step.want, look()); d != "" {
			t.Errorf("after %s (-want +got):\n%s", step.at, d)
		}
	}
	// Each node has its own.
	e.foreign.note("hv2", taken(3), nil, began)
	if on1, on2 := e.MACTaken("hv1", mac(3)), e.MACTaken("hv2", mac(3)); on1 != "" || on2 != "neighbour 3" {
		t.Errorf("on hv1 %q, on hv2 %q", on1, on2)
	}
	e.foreign.forget("hv2")
	if by := e.MACTaken("hv2", mac(3)); by != "" {
		t.Errorf("of a node that is followed no more: %q", by)
	}
}
