package provision

import (
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/intake"
)

// TestTakenMAC checks that a MAC that is used by someone else on the node is not given to an
// instance: a random one is replaced, and a requested one is refused.
func TestTakenMAC(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	asked := 0
	var first seedbed.MAC
	l.intake = NewIntake(l.db, intake.Serving{Node: testNode, MACTaken: func(node string, mac seedbed.MAC) string {
		if asked++; asked == 1 {
			first = mac
			return "domain old"
		}
		return ""
	}})
	l.create("web1")
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if asked != 2 || inst.NICs[0].MAC == first {
		t.Errorf("asked %d times, and got %s", asked, inst.NICs[0].MAC)
	}
	l.intake = NewIntake(l.db, intake.Serving{Node: testNode, MACTaken: func(string, seedbed.MAC) string { return "domain old" }})
	_, err = l.intake.Submit(t.Context(), seedbed.Request{Action: "create", Name: "web2", Profile: "small"}, nil)
	l.want("every MAC is taken", err, seedbed.ErrExists)
	if err == nil || !strings.Contains(err.Error(), "is used on node node1 already, by domain old") {
		t.Errorf("error %v", err)
	}
}
