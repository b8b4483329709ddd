//go:build integration && libvirt

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

// createStages are the stages at which daemons are killed.
var createStages = []string{"volumes", "define", "publish", "start", "ready"}

// TestKill kills each daemon with SIGKILL at one stage of a create job, with
// SEEDBED_LONG=1 at each, and starts it again: every job ends, and there is exactly
// one of everything, or nothing at all.
func TestKill(t *testing.T) {
	beside(t)
	s := killStack(t)
	for _, daemon := range []string{lab.Seedbedd, lab.Worker, lab.Metadata} {
		t.Run(daemon, func(t *testing.T) {
			for _, stage := range sample.Of(t, createStages, 1) {
				t.Run(stage, func(t *testing.T) {
					inStage(t, s, stage, strings.TrimPrefix(daemon, "seedbed-"), func(string) {
						s.Kill(daemon)
						s.Start(daemon)
						s.AwaitAPI()
					})
				})
			}
		})
	}
}

// killStack is a stack whose instances come and go in a moment.
func killStack(t *testing.T) *lab.Stack {
	t.Helper()
	s := hostStack(t, lab.StackOptions{})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	profile := seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted}
	addProfile(t, s, profile)
	// A guest of this one never asks for anything, so its job stays in the last stage.
	profile.Name, profile.Ready = "silent", seedbed.ReadyMetadata
	addProfile(t, s, profile)
	return s
}

// inStage strikes at a create job in a stage, for which it may take a few jobs, and more on a busy computer:
// a stage can be over before it is struck, and a job that was past it proves
// nothing about it.
func inStage(t *testing.T, s *lab.Stack, stage, prefix string, strike func(job string)) {
	t.Helper()
	for try := 1; ; try++ {
		name := fmt.Sprintf("%s-%s-%d", prefix, stage, try)
		if reached := strikeAt(t, s, stage, name, strike); reached == stage {
			return
		} else if try == 50 {
			t.Fatalf("in %d tries the job was never at %s", try, stage)
		}
	}
}

// strikeAt creates an instance, strikes while the job is in stage, and looks at
// what came of it. It returns the stage that the job was in.
func strikeAt(t *testing.T, s *lab.Stack, stage, name string, strike func(job string)) (reached string) {
	request := seedbed.Request{Name: name, Profile: "small"}
	if stage == "ready" {
		request.Profile = "silent"
	}
	receipt, err := s.API.CreateInstance(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	id := string(receipt.Job)
	if reached = awaitStage(t, s, id, stage); reached == stage {
		strike(id)
	}

	if stage == "ready" {
		// It goes on waiting; a cancel undoes it.
		lab.Await(t, lab.Patience, "the job is held again", func() bool {
			j, err := s.API.Job(t.Context(), id)
			return err == nil && j.Job.State == seedbed.JobRunning && j.Job.Stage == "ready" && time.Now().Before(j.Job.LeaseUntil)
		})
		if err := s.API.CancelJob(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if job := waitJob(t, s, id); job.State != seedbed.JobRolledBack {
			t.Fatalf("the cancelled job ended %s: %s\n%s", job.State, job.Error, s.Logs())
		}
		nothingLeft(t, s, name)
		return reached
	}
	job := waitJob(t, s, id)
	if job.State != seedbed.JobSucceeded {
		t.Fatalf("the job ended %s: %s\n%s", job.State, job.Error, s.Logs())
	}
	count := 0
	for _, d := range s.Domains() {
		if d == name {
			count++
		}
	}
	if count != 1 || len(volumes(t, s)) != 1 {
		t.Errorf("there are %d domains and the volumes %v, want one of each", count, volumes(t, s))
	}
	removeInstance(t, s, name)
	nothingLeft(t, s, name)
	return reached
}

// awaitStage looks at a job until it is in stage or past it, and returns the
// stage that it is in then. What a stage tells may come only with its end.
func awaitStage(t *testing.T, s *lab.Stack, id, stage string) (reached string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		j, err := s.API.Job(ctx, id)
		if err != nil {
			t.Fatalf("wait for stage %s: %v\n%s", stage, err, s.Logs())
		}
		if j.Job.State.Terminal() || slices.Index(createStages, j.Job.Stage) >= slices.Index(createStages, stage) {
			return j.Job.Stage
		}
		<-look.C
	}
}

// volumes are the volume files of the stack's pool.
func volumes(t *testing.T, s *lab.Stack) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "pools/default/volumes/*.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// nothingLeft checks that nothing of the instance is anywhere.
func nothingLeft(t *testing.T, s *lab.Stack, name string) {
	t.Helper()
	for _, d := range s.Domains() {
		if d == name {
			t.Errorf("domain %s is left", name)
		}
	}
	if v := volumes(t, s); len(v) != 0 {
		t.Errorf("volumes are left: %v", v)
	}
	building, _ := filepath.Glob(filepath.Join(s.Dir, "pools/default/building/*"))
	if len(building) != 0 {
		t.Errorf("half-made files are left: %v", building)
	}
	if ports := bridgePorts(s); len(ports) != 0 {
		t.Errorf("taps are left on the bridge: %v", ports)
	}
	if _, err := s.API.Instance(t.Context(), name); seedbed.KindName(err) != "not_found" {
		t.Errorf("instance %s: %v, want not found", name, err)
	}
	if got := elements(s); tapName.MatchString(got) {
		t.Errorf("filter elements are left:\n%s", got)
	}
}

// tapName is an element of a set or map, not the rules' "sb0*".
var tapName = regexp.MustCompile(`"sb\d+"`)

// awaitHistory waits until a job's events say something.
func awaitHistory(t *testing.T, s *lab.Stack, job, says string) {
	t.Helper()
	lab.Await(t, lab.Patience, "the job says "+says, func() bool {
		page, err := s.API.JobEvents(t.Context(), job, 0, 0)
		return err == nil && slices.ContainsFunc(page.Events, func(e seedbed.Event) bool { return strings.Contains(e.Msg, says) })
	})
}

// bridgePorts are the interfaces that are attached to the stack's bridge.
func bridgePorts(s *lab.Stack) []string {
	return strings.Fields(s.Run("ls", filepath.Join("/sys/class/net", s.Bridge, "brif")))
}

// remembered are the sets of what ports have sent, whose elements end by themselves.
var remembered = regexp.MustCompile(`(?s)\tset \S+ \{\n\t\ttype [^\n]*\n\t\tsize [^\n]*\n\t\tflags dynamic.*?\n\t\}\n`)

// elements is the bridge table that holds the ports' filters.
func elements(s *lab.Stack) string {
	return remembered.ReplaceAllString(s.Run("nft", "list", "table", "bridge", "seedbed"), "")
}
