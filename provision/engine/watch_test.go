package engine

import (
	"testing"

	"seedbed"
)

// TestLooksAfterJob checks that a check of a domain that was skipped because of a job is made when
// the job ends, and no other.
func TestLooksAfterJob(t *testing.T) {
	t.Parallel()
	const id = seedbed.InstanceID("ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab")
	w := newDomainWatch()
	n := w.open("node1")
	due := func(want int) {
		t.Helper()
		if len(n.events) != want {
			t.Fatalf("%d looks are due; want %d", len(n.events), want)
		}
		for range want {
			<-n.events
		}
	}
	w.busy(id, true)
	w.tell("node1", seedbed.DomainEvent{ID: id, Event: "defined"})
	w.busy(id, false)
	due(0)
	w.busy(id, true)
	w.tell("node1", seedbed.DomainEvent{ID: id, Event: "shutdown"})
	due(1)
	if !w.leavesOut(id, "node1") {
		t.Error("a domain is looked at while its job is in hand")
	}
	w.busy(id, false)
	due(1)
	if w.leavesOut(id, "node1") {
		t.Error("a domain is not looked at although its job has ended")
	}
	w.busy(id, true)
	w.busy(id, false)
	due(0)
	// A migration: the check that was skipped on the other node is made there.
	to := w.open("node2")
	w.busy(id, true)
	w.leavesOut(id, "node2")
	w.busy(id, false)
	due(0)
	if len(to.events) != 1 {
		t.Errorf("%d looks are due on the other node; want 1", len(to.events))
	}
}
