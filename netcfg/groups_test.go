package netcfg

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"seedbed"
)

func TestFit(t *testing.T) {
	t.Parallel()
	parts := map[string]int{"a/big": 60, "a/small": 10, "b/one": 30, "c/one": 5, "c/two": 5}
	groups := slices.Sorted(maps.Keys(parts))
	for _, tt := range []struct {
		name     string
		room     int
		in, over []string
	}{
		{"all", 110, groups, nil},
		{"what is left for the largest", 50, []string{"a/small", "b/one", "c/one", "c/two"}, []string{"a/big"}},
		{"the small", 15, []string{"c/one", "c/two"}, []string{"a/big", "a/small", "b/one"}},
		{"none", 0, []string{}, groups},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, over := fit(groups, parts, tt.room)
			if !slices.Equal(in, tt.in) || !slices.Equal(over, tt.over) {
				t.Errorf("fit() = %q and %q, want %q and %q", in, over, tt.in, tt.over)
			}
		})
	}
}

// The rules of all projects together are bounded, and one with few rules keeps its own beside those with many.
func TestNodeParts(t *testing.T) {
	t.Parallel()
	var s lists
	s.Networks = []seedbed.Network{testNetwork()}
	add := func(name string, rules []seedbed.SecurityRule) {
		port := testPort()
		i := len(s.Ports) + 1
		port.Tap, port.Mark, port.Groups = fmt.Sprintf("sb%d", i), uint32(i), []string{name}
		port.MAC[4], port.MAC[5] = byte(i>>8), byte(i)
		port.Addr = netip.AddrFrom4([4]byte{10, 213, byte(i >> 8), byte(i)})
		s.Ports, s.Groups = append(s.Ports, port), append(s.Groups, seedbed.SecurityGroup{Name: name, Rules: rules})
	}
	s.Networks[0].Prefix = netip.MustParsePrefix("10.213.0.0/16")
	s.Networks[0].Gateway = netip.MustParseAddr("10.213.255.1")
	var rules []seedbed.SecurityRule
	for i := range 60 {
		rules = append(rules, seedbed.SecurityRule{Direction: seedbed.DirectionIn, Protocol: "tcp", Ports: fmt.Sprint(100 + 2*i)})
	}
	need := seedbed.RuleParts(rules)
	for p := range 5 {
		for i := range seedbed.MaxProjectParts / need {
			add(fmt.Sprintf("p%d/g%d", p, i), rules)
		}
	}
	add("zoo/few", rules[:1])
	p, err := newPlan(s.state(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(p.groups.inUse()), MaxNodeParts/need+1; got != want {
		t.Errorf("the rules of %d groups are in force, want %d", got, want)
	}
	if !slices.Contains(p.groups.inUse(), "zoo/few") {
		t.Error("the project with one rule has lost it")
	}
	if err := p.groups.noRoom(); err == nil || !strings.Contains(err.Error(), "allow nothing: p") {
		t.Errorf("noRoom() = %v, want the groups that allow nothing", err)
	}
}
