package main

import (
	"testing"
	"time"

	"seedbed"
)

// TestGuests: what is put into the directory is what seedbedd could have put there.
func TestGuests(t *testing.T) {
	t.Parallel()
	in := newInstallation(3000)
	seen := map[any]bool{}
	for i, g := range append(in.guests, guest(manyGuests-1, nil)) {
		if _, err := seedbed.ParseInstanceID(string(g.ID)); err != nil {
			t.Fatal(err)
		}
		nic := g.NICs[0]
		if !guestPrefix.Contains(nic.Addr) || nic.Addr == gateway {
			t.Fatalf("guest %d has the address %s", i, nic.Addr)
		}
		for _, key := range []any{g.ID, g.ServedID(), g.Name, nic.ID, nic.MAC, nic.Addr, g.ReportToken} {
			if seen[key] {
				t.Fatalf("guest %d shares %v", i, key)
			}
			seen[key] = true
		}
		if g.UserData != nil && len(in.blobs[g.UserData.SHA256]) != userData {
			t.Fatalf("guest %d has user-data of %d bytes", i, len(in.blobs[g.UserData.SHA256]))
		}
	}
	if len(in.blobs) != profiles {
		t.Errorf("%d documents, want one for each profile", len(in.blobs))
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	round := func(rate int) outcome { return outcome{took: make([]time.Duration, rate), wall: time.Second} }
	tu := turns{ours: []outcome{round(90), round(10), round(99)}, others: []outcome{round(100), round(100), round(110)}}
	if got := tu.ratio((*outcome).rate); got != 0.9 {
		t.Errorf("ratio %v, want the median of 0.9, 0.1 and 0.9", got)
	}
	if tu.flaw() != "" {
		t.Errorf("flaw %q", tu.flaw())
	}
	tu.ours[1].bad = 3
	if tu.flaw() == "" {
		t.Error("requests failed, and that is no flaw")
	}
}
