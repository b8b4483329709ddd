//go:build integration && libvirt

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// slowHook notes each run, and waits in the first.
const slowHook = `#!/bin/sh
echo "$SEEDBED_KIND $SEEDBED_SUBJECT $SEEDBED_STAGE $SEEDBED_WHEN $SEEDBED_NODE $SEEDBED_AGAIN" >> "$SEEDBED_HOOKS_DIR/../runs"
echo "run of $SEEDBED_SCRIPT as $(id -u)"
[ "$SEEDBED_AGAIN" = true ] || sleep 1000
`

// TestHookScript has the real worker run a script beside a stage, and kills it
// while that runs: the next worker runs it again, and is told so. A script that
// others may write fails the stage that requires it.
func TestHookScript(t *testing.T) {
	s := lab.NewStack(t, lab.StackOptions{Netns: lab.Netns(t), URI: "test:///default", Jobs: `{lease: 1s, poll: 50ms, hooks: [
		{kind: import, stage: import, when: after, script: slow, required: true, timeout: 1m}]}`})
	dir := filepath.Join(s.Dir, "hooks.d")
	script := filepath.Join(dir, "slow")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(slowHook), 0o755); err != nil {
		t.Fatal(err)
	}
	add := func(name string) string {
		t.Helper()
		receipt, err := s.API.ImportImage(t.Context(), wire.ImageRequest{Name: name, Path: lab.BlankImage(t, s.Dir)})
		if err != nil {
			t.Fatal(err)
		}
		return string(receipt.Job)
	}
	runs := func() string {
		text, _ := os.ReadFile(filepath.Join(s.Dir, "runs"))
		return string(text)
	}
	const said = "run of slow as 0"
	id := add("blank")
	lab.Await(t, lab.Patience, "the script's output is kept", func() bool { return strings.Contains(cli(t, s, "job", "logs", id), said) })
	s.Kill(lab.Worker)
	s.Start(lab.Worker)
	if job := waitJob(t, s, id); job.State != seedbed.JobSucceeded {
		t.Fatalf("import: %s: %s", job.State, job.Error)
	}
	const line = "import blank import after lab "
	if got := runs(); got != line+"false\n"+line+"true\n" {
		t.Errorf("runs:\n%s", got)
	}
	out := cli(t, s, "job", "logs", id)
	if strings.Count(out, said) != 2 {
		t.Errorf("output:\n%s", out)
	}
	for _, command := range []string{"import   [qemu-img convert ", "import   [qemu-img convert: ended well after "} {
		if !strings.Contains(out, command) {
			t.Errorf("output without %q:\n%s", command, out)
		}
	}
	if out, _, _ := s.CLI("doctor"); !strings.Contains(out, "hook scripts") {
		t.Errorf("doctor does not list the scripts:\n%s", out)
	}
	if err := os.Chmod(script, 0o777); err != nil {
		t.Fatal(err)
	}
	if job := waitJob(t, s, add("other")); job.State != seedbed.JobRolledBack ||
		!strings.Contains(job.Error, "slow can be written by others than its owner") {
		t.Errorf("import: %s: %s", job.State, job.Error)
	}
}
