//go:build integration

package script

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/script/sandbox"
)

// Each turn has what was printed in it, however little time lies between the
// printing and the step's end.
func TestOutputOfTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Limits{})
	r.turn(
		seedbed.ScriptTurn{Start: &seedbed.ScriptStart{Instance: instance, Name: "web3", Profile: "web", Number: "3", Data: []byte(`{}`), Text: `
from seedbed import VMBuilder
print("loaded", end="")
class VMBuilderScript(VMBuilder):
    turns = 0
    def setup(self):
        self.turns += 1
        print("turn", self.turns)
        print("no end", end="")
`}},
	)
	if d := cmp.Diff([]seedbed.OutputLine{{Stream: "stdout", Text: "loaded"}}, r.output); d != "" {
		t.Errorf("at the start (-want +got):\n%s", d)
	}
	for n := range 100 {
		r.output = nil
		r.turn(step("setup"))
		want := []seedbed.OutputLine{{Stream: "stdout", Text: fmt.Sprint("turn ", n+1)}, {Stream: "stdout", Text: "no end"}}
		if d := cmp.Diff(want, r.output); d != "" {
			t.Fatalf("turn %d (-want +got):\n%s", n+1, d)
		}
	}
}
