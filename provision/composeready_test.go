package provision

import (
	"bytes"
	"testing"

	"seedbed"
)

// TestComposedReport checks that the guest of a provisioner profile whose job ends when the guest
// reports in is told the address for that, as with any other profile.
func TestComposedReport(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withProvisioner()
	for name, ready := range map[string]seedbed.Ready{"web1": seedbed.ReadyReport, "web2": seedbed.ReadyStarted} {
		want := ready == seedbed.ReadyReport
		_, err := l.asPVC(t.Context(), seedbed.Request{Name: name, Profile: "web", Ready: ready})
		l.ok(err)
		inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault(name))
		l.ok(err)
		if got := bytes.Contains(inst.UserData, []byte("phone_home")); got != want || want == (inst.ReportToken == "") {
			t.Errorf("ready %s: user-data %q, with a token: %v", ready, inst.UserData, inst.ReportToken != "")
		}
		docs, err := l.intake.DocumentsOf(t.Context(), inst) // as rebuilt when the profile is changed
		l.ok(err)
		if !bytes.Equal(docs.UserData, inst.UserData) {
			t.Errorf("ready %s: made anew it is %q, not %q", ready, docs.UserData, inst.UserData)
		}
	}
}
