package guestplane

import (
	"slices"
	"testing"

	"seedbed"
)

// TestDesiredGroups: the kernel is told the security groups and those of each port, and a change of a group alone makes
// the plane apply the whole state.
func TestDesiredGroups(t *testing.T) {
	t.Parallel()
	g := guest0()
	g.NICs[0].Groups = []string{"acme/web"}
	state := stateWith([]seedbed.Network{network0()}, g)
	state.Groups = []seedbed.SecurityGroup{{Name: "acme/web"}}
	s := desired(state)
	ports := slices.Collect(s.Ports)
	if len(s.Groups) != 1 || len(ports) != 1 || !slices.Equal(ports[0].Groups, g.NICs[0].Groups) {
		t.Errorf("desired %+v with ports %+v", s, ports)
	}
	k := &fakeKernel{}
	p := testPlane(k)
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	for revision, group := range []seedbed.SecurityGroup{{Name: "acme/web"}, {Name: "acme/web", Rules: seedbed.DefaultRules("acme/web")}} {
		next := state
		next.Since, next.Revision = state.Revision, state.Revision+1
		next.Groups = []seedbed.SecurityGroup{group}
		if err := p.Apply(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if whole := k.tries[len(k.tries)-1] == "apply"; whole != (revision == 1) {
			t.Errorf("groups %+v: the whole state was applied: %t", next.Groups, whole)
		}
		state = next
	}
}
