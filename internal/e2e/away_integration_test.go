//go:build integration && libvirt

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// TestPoolAway checks that a worker starts while the file system of one of its pools is not mounted:
// the pool is said to be unavailable and why, a job that needs it waits, the other pool is used, and
// with the file system all goes on by itself.
func TestPoolAway(t *testing.T) {
	beside(t)
	dir := lab.Dir(t)
	pool, other := filepath.Join(dir, "pool"), filepath.Join(dir, "other")
	s := lab.NewStack(t, lab.StackOptions{Netns: lab.Netns(t), URI: "test:///default",
		Storage: fmt.Sprintf("{pools: [{name: default, type: dir, path: %s}, {name: other, type: dir, path: %s}]}", pool, other)})
	blank := lab.BlankImage(t, s.Dir)
	addImage(t, s, "before", blank)
	s.Kill(lab.Seedbedd)
	s.Kill(lab.Worker)
	if err := os.Rename(pool, pool+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(pool, 0o755); err != nil { // a mount point
		t.Fatal(err)
	}
	s.Start(lab.Worker)
	s.Start(lab.Seedbedd) // which asks at once what pools there are
	s.AwaitAPI()
	const away = "pool default is away: there is no pool at "
	for _, command := range [][]string{{"pool", "list"}, {"node", "show", "lab"}, {"doctor"}} {
		lab.Await(t, lab.Patience, strings.Join(command, " ")+" says what is wrong with the pool", func() bool {
			stdout, _, _ := s.CLI(command...)
			return strings.Contains(stdout, away+pool)
		})
	}
	add := func(name, pool string) seedbed.JobID {
		t.Helper()
		receipt, err := s.API.ImportImage(t.Context(), wire.ImageRequest{Name: name, Pool: pool, Path: blank})
		if err != nil {
			t.Fatal(err)
		}
		return receipt.Job
	}
	waits := add("waits", "default")
	if job := waitJob(t, s, string(add("elsewhere", "other"))); job.State != seedbed.JobSucceeded {
		t.Errorf("an import into the other pool: %s: %s", job.State, job.Error)
	}
	if files, err := os.ReadDir(pool); err != nil || len(files) > 0 {
		t.Errorf("in the mount point there is %v, %v", files, err)
	}
	if err := os.Remove(pool); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pool+".away", pool); err != nil {
		t.Fatal(err)
	}
	if job := waitJob(t, s, string(waits)); job.State != seedbed.JobSucceeded {
		t.Errorf("the import that waited for the pool: %s: %s", job.State, job.Error)
	}
	if f := diagnose(t, s)["pool default"]; f.Verdict != "ok" {
		t.Errorf("the doctor says of the pool: %+v", f)
	}
}
