package config

import (
	"strings"
	"testing"
)

func TestPlacement(t *testing.T) {
	t.Parallel()
	if p := Default().Placement; p != (Placement{Selector: "mem"}) {
		t.Errorf("default %+v", p)
	}
	c, err := Parse("f.yaml", []byte("placement: {selector: vms, memory_overcommit: 1.5, vcpu_overcommit: 4}\n"))
	if err != nil || c.Placement != (Placement{"vms", 1.5, 4}) {
		t.Errorf("%+v, %v", c.Placement, err)
	}
	for name, test := range map[string]struct{ section, want string }{
		"selector":        {"selector: best", `placement.selector: "best" cannot be used: expected mem or memprov or vcpus or load or vms`},
		"no selector":     {`selector: ""`, `placement.selector`},
		"negative":        {"memory_overcommit: -1", `placement.memory_overcommit: "-1" cannot be used`},
		"nearly nothing":  {"vcpu_overcommit: 0.01", `placement.vcpu_overcommit: "0.01" cannot be used: expected 0 for no bound, or 0.1 to 1000`},
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
