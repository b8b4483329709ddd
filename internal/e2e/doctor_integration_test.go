//go:build integration && libvirt

package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"seedbed/internal/lab"
)

// finding is a check as seedbed doctor prints it.
type finding struct{ Name, Verdict, Detail, Hint string }

// diagnose runs seedbed doctor and gives its checks by name, each of which is there once.
func diagnose(t *testing.T, s *lab.Stack) map[string]finding {
	t.Helper()
	out, stderr, _ := s.CLI("doctor", "--daemon-config", s.Config, "-f", "json")
	var all []finding
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr)
	}
	byName := map[string]finding{}
	var order []string
	for _, f := range all {
		if _, twice := byName[f.Name]; twice {
			t.Errorf("%s is there twice:\n%s", f.Name, out)
		}
		byName[f.Name] = f
		order = append(order, f.Verdict)
	}
	rank := func(a, b string) int { return len(a) - len(b) } // ok, note, problem
	if !slices.IsSortedFunc(order, rank) {
		t.Errorf("the problems are not at the end: %s", order)
	}
	return byName
}

// TestDoctorHints stops each daemon and does what the doctor says, which mends it.
func TestDoctorHints(t *testing.T) {
	s := lab.NewStack(t, lab.StackOptions{URI: "test:///default"}) // where the command can ask the daemons
	for daemon, check := range map[string]string{lab.Worker: "worker", lab.Metadata: "seedbed-metadata", lab.Seedbedd: "api"} {
		lab.Await(t, lab.Patience, daemon+" is well", func() bool { return diagnose(t, s)[check].Verdict == "ok" })
		s.Kill(daemon)
		f := diagnose(t, s)[check]
		command, ok := strings.CutPrefix(f.Hint, "start it: ")
		if f.Verdict != "problem" || !ok || !strings.Contains(command, daemon) {
			t.Errorf("without %s: %+v", daemon, f)
			continue
		}
		words := strings.Fields(command)
		started := exec.Command(words[0], words[1:]...)
		started.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := started.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			started.Process.Signal(syscall.SIGTERM)
			started.Wait()
		})
		lab.Await(t, lab.Patience, "what the doctor said to run has started "+daemon, func() bool {
			return diagnose(t, s)[check].Verdict == "ok"
		})
	}
}
