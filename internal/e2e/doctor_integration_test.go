//go:build integration && libvirt

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// TestDoctorConsent stores a privileged script where no node runs such scripts, and does each of the
// two things that the doctor says.
func TestDoctorConsent(t *testing.T) {
	beside(t)
	s := lab.NewStack(t, lab.StackOptions{Netns: lab.Netns(t), URI: "test:///default", Scripts: "{privileged: false}"})
	const text = "def install(**kwargs):\n    pass\n"
	file := filepath.Join(s.Dir, "disks.py")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	privilege := []string{"script", "options", "disks", "--privileged", "--sha256", fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
	for _, command := range [][]string{{"provisioner", "script", "add", "disks", file}, privilege} {
		if _, stderr, status := s.CLI(command...); status != 0 {
			t.Fatalf("seedbed %q: exit status %d: %s", command, status, stderr)
		}
	}
	await := func(what string, want func(finding) bool) (f finding) {
		t.Helper()
		lab.Await(t, lab.Patience, what, func() bool {
			f = diagnose(t, s)["privileged scripts"]
			return want(f)
		})
		return f
	}
	refused := func(f finding) bool { return f.Verdict == "problem" }
	f := await("the doctor finds it", refused)
	key, _, _ := strings.Cut(strings.TrimPrefix(f.Hint, "set "), " in seedbed.yaml")
	_, command, _ := strings.Cut(f.Hint, "or take the privilege away: seedbed ")
	if key != "scripts.privileged: true" || !strings.Contains(f.Detail, "disks") || command == "" {
		t.Fatalf("%+v", f)
	}
	if _, stderr, status := s.CLI(strings.Fields(command)...); status != 0 {
		t.Fatalf("what the doctor said, seedbed %s: exit status %d: %s", command, status, stderr)
	}
	await("no script is privileged", func(f finding) bool { return f == finding{} })
	if _, stderr, status := s.CLI(privilege...); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	await("the doctor finds it again", refused)
	config, err := os.ReadFile(s.Config)
	if err == nil {
		err = os.WriteFile(s.Config, bytes.Replace(config, []byte("privileged: false"), []byte("privileged: true"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(lab.Seedbedd)
	s.Stop(lab.Worker)
	s.Start(lab.Worker)
	s.Start(lab.Seedbedd) // which asks the node at once
	s.AwaitAPI()
	await("the node runs it", func(f finding) bool { return f.Verdict == "ok" && strings.Contains(f.Detail, "lab") })
}
