package config

import (
	"strings"
	"testing"
)

func TestPlacement(t *testing.T) {
	t.Parallel()
	if p := Default().Placement; p != (Placement{Selector: "mem", MemoryOvercommit: 1, VCPUOvercommit: Unlimited}) {
		t.Errorf("default %+v", p)
	}
	c, err := Parse("f.yaml", []byte("placement: {selector: vms, memory_overcommit: 1.5, vcpu_overcommit: 4, tolerate_failures: 2}\n"))
	if err != nil || c.Placement != (Placement{Selector: "vms", MemoryOvercommit: 1.5, VCPUOvercommit: 4, TolerateFailures: 2}) {
		t.Errorf("%+v, %v", c.Placement, err)
	}
	_, err = Parse("f.yaml", []byte("placement: {tolerate_failures: -1}\n"))
	if err == nil || !strings.Contains(err.Error(), "placement.tolerate_failures") {
		t.Errorf("a negative number of failures: %v", err)
	}
	for text, want := range map[string]struct {
		value    Overcommit
		bound    float64
		warnings string
	}{
		"unlimited": {Unlimited, 0, ""},
		"0":         {0, 0, "placement.memory_overcommit: 0 is read as unlimited: write that"},
		"0.0":       {0, 0, "placement.memory_overcommit: 0 is read as unlimited: write that"},
		"2":         {2, 2, ""},
		`"1.5"`:     {1.5, 1.5, ""},
	} {
		c, err := Parse("f.yaml", []byte("placement: {memory_overcommit: "+text+"}\n"))
		got := c.Placement.MemoryOvercommit
		if err != nil || got != want.value || got.Bound() != want.bound || strings.Join(c.Warnings(), "\n") != want.warnings {
			t.Errorf("%s: %v, %v, %q, %v", text, got, got.Bound(), c.Warnings(), err)
		}
	}
	if all := Default().Warnings(); len(all) > 0 {
		t.Errorf("the defaults have warnings: %q", all)
	}
	for name, test := range map[string]struct{ section, want string }{
		"selector":        {"selector: best", `placement.selector: "best" cannot be used: expected mem or memprov or vcpus or load or vms`},
		"no selector":     {`selector: ""`, `placement.selector`},
		"negative":        {"memory_overcommit: -1", `placement.memory_overcommit: "-1" is not a limit`},
		"nearly nothing":  {"vcpu_overcommit: 0.01", `placement.vcpu_overcommit: "0.01" is not a limit: expected unlimited, or 0.1 to 1000`},
		"without end":     {"vcpu_overcommit: .inf", `placement.vcpu_overcommit`},
		"no number":       {"memory_overcommit: .nan", `placement.memory_overcommit`},
		"much":            {"memory_overcommit: 150%", `memory_overcommit`},
		"an unknown word": {"policy: mem", `policy`},
	} {
		_, err := Parse("f.yaml", []byte("placement: {"+test.section+"}\n"))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
}
