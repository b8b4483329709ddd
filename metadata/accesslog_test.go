package metadata

import (
	"fmt"
	"testing"
	"time"

	"seedbed"
)

// records sums up the access records of an instance: single ones, those for several requests, and
// the requests that the latter count.
func (l *lab) records(id seedbed.InstanceID) (single, sums int, counted int64) {
	for _, e := range l.seen(seedbed.GuestAccess) {
		if e.Instance != id {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(e.Path, "(%d more request", &n); err == nil {
			sums++
			counted += n
		} else {
			single++
		}
	}
	return single, sums, counted
}

// TestRecordsAreFew: a guest that asks without end is served, and recorded in few lines.
func TestRecordsAreFew(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte("x")}, guestA(), guestB()))
	a := l.client(addrA)
	for range recordBurst + 36 {
		l.want(a, 200, "GET", "/latest/meta-data/hostname")
	}
	l.want(a, 200, "GET", "/latest/user-data")
	l.want(l.client(addrB), 200, "GET", "/latest/meta-data/hostname")
	l.post(a, reportPrefix+guestA().ReportToken, "hostname=x")
	if single, sums, _ := l.records(idA); single != recordBurst || sums != 0 {
		t.Errorf("%d records and %d sums, want %d and none", single, sums, recordBurst)
	}
	if single, _, _ := l.records(idB); single != 1 {
		t.Errorf("%d records of the other guest, want 1", single)
	}
	if n := len(l.seen(seedbed.GuestUserData)) + len(l.seen(seedbed.GuestReport)); n != 2 {
		t.Errorf("%d events of user-data and report, want 2", n)
	}
	l.apply(stateOf(nil, guestA())) // a change of the directory gives no new burst
	l.want(a, 200, "GET", "/latest/meta-data/hostname")

	l.pass(time.Second)
	eventually(t, "there is room for the sum", func() bool { _, sums, _ := l.records(idA); return sums == 1 })
	access := l.seen(seedbed.GuestAccess)
	if e := access[len(access)-1]; e.Path != "(39 more requests)" || e.Instance != idA || !e.At.Equal(l.clock()) {
		t.Errorf("record %+v", e)
	}
	l.want(a, 200, "GET", "/latest/meta-data/hostname") // the other half of the second
	l.want(a, 200, "GET", "/latest/meta-data/hostname")
	if single, sums, _ := l.records(idA); single != recordBurst+1 || sums != 1 {
		t.Errorf("%d records and %d sums after a second", single, sums)
	}
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	if _, sums, counted := l.records(idA); sums != 2 || counted != 40 {
		t.Errorf("at the end %d sums of %d requests, want 2 of 40", sums, counted)
	}
	if e := l.seen(seedbed.GuestAccess); e[len(e)-1].Path != "(1 more request)" {
		t.Errorf("the last record is %+v", e[len(e)-1])
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var b budget
	take := func(want int) {
		t.Helper()
		got := 0
		for range 2 * recordBurst {
			if ok, _ := b.take(now); ok {
				got++
			}
		}
		if got != want {
			t.Errorf("%d single records, want %d", got, want)
		}
	}
	take(recordBurst)
	if n, _ := b.settle(now, false); n != 0 {
		t.Errorf("without room: a sum of %d", n)
	}
	now = now.Add(-time.Hour) // a clock that was set back refills nothing
	take(0)
	if n, _ := b.settle(now, false); n != 0 {
		t.Errorf("after the clock was set back: a sum of %d", n)
	}
	now = now.Add(recordEvery)
	if n, _ := b.settle(now, false); n != 3*recordBurst {
		t.Errorf("a sum of %d, want %d", n, 3*recordBurst)
	}
	take(0)
	now = now.Add(time.Hour)
	take(0) // the sum comes first
	if n, _ := b.settle(now, false); n != 4*recordBurst {
		t.Errorf("a sum of %d, want %d", n, 4*recordBurst)
	}
	take(recordBurst - 1)
	if n, _ := b.settle(now, true); n != recordBurst+1 {
		t.Errorf("at the end a sum of %d, want %d", n, recordBurst+1)
	}
}
