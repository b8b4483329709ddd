//go:build integration && libvirt

package e2e

import (
	"syscall"
	"testing"
	"time"

	"seedbed/internal/lab"
)

// TestFreeze stops daemons with SIGSTOP in the middle of create jobs, and has them
// go on: what they were about to do does not come on top of what was done since.
func TestFreeze(t *testing.T) {
	beside(t)
	s := killStack(t)
	for _, stage := range []string{"volumes", "define", "start"} {
		t.Run("seedbedd/"+stage, func(t *testing.T) {
			inStage(t, s, stage, "frozen", func(string) {
				s.Signal(lab.Seedbedd, syscall.SIGSTOP)
				frozen := time.Now()
				lab.Await(t, lab.Patience, "the job's lease of a second is over", func() bool { return time.Since(frozen) > 1500*time.Millisecond })
				s.Signal(lab.Seedbedd, syscall.SIGCONT)
			})
		})
	}
	// Until seedbedd has given it up and has asked again: then both calls are carried out.
	t.Run("seedbed-worker/volumes", func(t *testing.T) {
		inStage(t, s, "volumes", "silent", func(job string) {
			s.Signal(lab.Worker, syscall.SIGSTOP)
			awaitHistory(t, s, job, "trying again")
			s.Signal(lab.Worker, syscall.SIGCONT)
		})
	})
}
