package provision

import (
	"slices"
	"sync"

	"seedbed"
)

// ledger is what all processes of a lab have written, by job: the epochs of the accepted writes, in
// order.
type ledger struct {
	mu     sync.Mutex
	epochs map[seedbed.JobID][]int64
}

func (d *ledger) note(ref seedbed.JobRef) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epochs == nil {
		d.epochs = map[seedbed.JobID][]int64{}
	}
	d.epochs[ref.ID] = append(d.epochs[ref.ID], ref.Epoch)
}

// check checks I3.
func (d *ledger) check(l *lab) {
	l.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, epochs := range d.epochs {
		if !slices.IsSorted(epochs) {
			l.violated("I3", "job %s was written under epochs %v", id, epochs)
		}
	}
}

// taken records the epoch of an accepted write.
func (m *mortal) taken(ref seedbed.JobRef, err error) error {
	if err == nil {
		m.ledger.note(ref)
	}
	return err
}
