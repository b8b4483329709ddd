package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/effects"
)

const scriptInstance = seedbed.InstanceID("ec200000-0000-4000-8000-000000000009")

func scriptStart(text string) seedbed.ScriptTurn {
	return seedbed.ScriptTurn{Start: &seedbed.ScriptStart{Instance: scriptInstance, Name: "web1", Number: "1", Text: text, Data: []byte("{}")}}
}

// TestScriptTurns checks that a script continues turn by turn over the wire, and that its output
// comes line by line.
func TestScriptTurns(t *testing.T) {
	t.Parallel()
	l := start(t)
	call := seedbed.Call{Job: "j1", Epoch: 1, Stage: "setup"}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var text strings.Builder
	var want []seedbed.OutputLine
	for i := range 200 {
		fmt.Fprintf(&text, "setup: print line %d\n", i)
		want = append(want, seedbed.OutputLine{Stream: "stdout", Text: fmt.Sprintf("line %d", i)})
	}
	text.WriteString("create: xml <domain/>\nprepare: add_volume default NAME_sda 1G\ninstall: fail no mirror\n")
	var got []seedbed.OutputLine
	run := func(turn seedbed.ScriptTurn) seedbed.ScriptResult {
		t.Helper()
		r, err := effects.RunScript.Do(ctx, l, call, turn, effects.OnOutput(func(line seedbed.OutputLine) { got = append(got, line) }))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(scriptStart(text.String())); r.Kind != "class" {
		t.Errorf("began as %+v", r)
	}
	run(seedbed.ScriptTurn{Step: "setup"})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("output (-want +got):\n%s", d)
	}
	if r := run(seedbed.ScriptTurn{Step: "create"}); r.XML != "<domain/>" {
		t.Errorf("create gave %+v", r)
	}
	r := run(seedbed.ScriptTurn{Step: "prepare"})
	if d := cmp.Diff(&seedbed.ScriptCall{ID: 1, Name: "add_volume", Pool: "default", Volume: "web1_sda", Size: "1G"}, r.Call); d != "" {
		t.Errorf("call (-want +got):\n%s", d)
	}
	run(seedbed.ScriptTurn{Answer: &seedbed.ScriptAnswer{ID: r.Call.ID, OK: true}})
	if r := run(seedbed.ScriptTurn{Step: "install"}); r.Failure == nil || r.Failure.Message != "no mirror" || r.Failure.Traceback == "" {
		t.Errorf("install gave %+v", r.Failure)
	}
	call.Epoch = 2
	if err := effects.CloseScript.Do(ctx, l, call, effects.DomainRef{ID: scriptInstance}); err != nil || l.scripts.Live() != 0 {
		t.Errorf("closed: %v, %d run", err, l.scripts.Live())
	}
	call.Epoch = 1
	if _, err := effects.RunScript.Do(ctx, l, call, scriptStart("")); !errors.Is(err, seedbed.ErrStale) {
		t.Errorf("a former holder's turn: %v", err)
	}
}

// TestScriptRefused checks that malformed requests do not reach a session.
func TestScriptRefused(t *testing.T) {
	t.Parallel()
	l := start(t)
	call := seedbed.Call{Job: "j1", Epoch: 1, Stage: "setup"}
	bad := scriptStart("")
	bad.Start.Name = "../x"
	nobody := scriptStart("")
	nobody.Start.Instance = "x"
	for name, turn := range map[string]seedbed.ScriptTurn{"nothing": {}, "an unknown step": {Step: "destroy"}, "a wrong name": bad,
		"no instance": nobody} {
		if _, err := effects.RunScript.Do(t.Context(), l, call, turn); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := effects.RunScript.Do(t.Context(), l, call, seedbed.ScriptTurn{Step: "setup"}); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("a step without a session: %v", err)
	}
	if len(l.scripts.Starts()) != 0 {
		t.Errorf("begun: %v", l.scripts.Starts())
	}
}

// TestScriptClientGone checks that a client that disconnects during a turn ends the session.
func TestScriptClientGone(t *testing.T) {
	t.Parallel()
	l := start(t)
	call := seedbed.Call{Job: "j1", Epoch: 1, Stage: "setup"}
	if _, err := effects.RunScript.Do(t.Context(), l, call, scriptStart("setup: print now\nsetup: hang\n")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := effects.RunScript.Do(ctx, l, call, seedbed.ScriptTurn{Step: "setup"}, effects.OnOutput(func(seedbed.OutputLine) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("left: %v", err)
	}
	for deadline := time.Now().Add(patience); l.scripts.Live() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the script runs on")
		}
	}
}

func TestScriptHost(t *testing.T) {
	t.Parallel()
	l := start(t)
	l.scripts.Missing = []string{"mkfs.xfs"}
	host, err := effects.ScriptHost.Ask(t.Context(), l, effects.ToolNames{Tools: []string{"mkfs.xfs", "mkfs.ext4"}})
	if err != nil || host.Arch == "" || len(host.Pools) != 1 || host.Pools[0].Name != "default" ||
		!slices.Equal(host.Missing, []string{"mkfs.xfs"}) || host.Secret != "" {
		t.Errorf("host %+v, %v", host, err)
	}
	if _, err := effects.CheckDomain.Ask(t.Context(), l, seedbed.DomainSpec{}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a hypervisor without documents checks one: %v", err)
	}
}

// TestNoScripts checks the errors of a worker without sandboxes, which has no session to end.
func TestNoScripts(t *testing.T) {
	t.Parallel()
	l := start(t)
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	l.scripts = nil
	l.serve(t)
	call := seedbed.Call{Job: "j1", Epoch: 1, Stage: "setup"}
	if _, err := effects.RunScript.Do(t.Context(), l, call, scriptStart("")); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), "runs no provisioning scripts") {
		t.Errorf("run: %v", err)
	}
	if err := effects.CloseScript.Do(t.Context(), l, call, effects.DomainRef{ID: scriptInstance}); err != nil {
		t.Errorf("close: %v", err)
	}
}
