package webhook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// change changes the hook.
func (i *installation) change(t *testing.T, change func(*seedbed.Hook)) {
	t.Helper()
	h, err := i.db.Hook(t.Context(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	change(&h)
	if _, err := i.db.UpdateHook(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// finish claims the job that is next, and ends it with the instance in that state; of none nothing
// is left.
func (i *installation) finish(t *testing.T, id seedbed.JobID, state seedbed.InstanceState) seedbed.Job {
	t.Helper()
	job, err := i.db.ClaimJob(t.Context(), "test", time.Minute)
	if err != nil || job == nil || job.ID != id {
		t.Fatalf("claimed %+v (%v), want %s", job, err, id)
	}
	if err := i.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: state,
		Drop: state == ""}); err != nil {
		t.Fatal(err)
	}
	return *job
}

// A hook makes no more instances than it may have at a time, or ask for in an hour, and others are
// not held back by it.
func TestQuotasOfAHook(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*seedbed.Hook)
		says    string
		removed int // the answer once the first has gone
	}{
		"instances": {func(h *seedbed.Hook) { h.Instances = 1 }, "has created 1 instances", 202},
		"creates":   {func(h *seedbed.Hook) { h.Creates = 1 }, "has asked for 1 instances", 507},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, client := install(t), newClient(t)
			i.change(t, test.change)
			first := i.send(t, client, "msg_1", create("web1"))
			if first.status != 202 {
				t.Fatalf("%+v, want 202", first)
			}
			second := i.send(t, client, "msg_2", create("web2"))
			if second.status != 507 || second.retryAfter == "" || !strings.Contains(second.Detail, test.says) {
				t.Errorf("%+v, want 507 with Retry-After, that %s", second, test.says)
			}
			if again := i.send(t, client, "msg_1", create("web1")); again.status != 202 || again.Job != first.Job {
				t.Errorf("the first once more: %+v", again)
			}
			i.finish(t, first.Job, seedbed.InstanceRunning)
			removal := i.send(t, client, "msg_3", `{"action":"remove","name":"web1"}`)
			if removal.status != 202 {
				t.Fatalf("the removal: %+v", removal)
			}
			i.finish(t, removal.Job, "")
			if got := i.send(t, client, "msg_2", create("web2")); got.status != test.removed {
				t.Errorf("once the first has gone: %+v, want %d", got, test.removed)
			}
			i.change(t, func(h *seedbed.Hook) { h.Instances, h.Creates = 0, 0 })
			if got := i.send(t, client, "msg_4", create("web4")); got.status != 202 {
				t.Errorf("without a quota: %+v", got)
			}
		})
	}
}

// The payload of a delivery is kept where the hook says so, and nowhere else, whatever becomes of
// it.
func TestPayloadIsKept(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	n := 0
	for _, keep := range []bool{false, true} {
		for decision, when := range map[seedbed.Decision]string{seedbed.DecisionAccepted: "", seedbed.DecisionIgnored: "false",
			seedbed.DecisionRefused: "1 / 0 == 1"} {
			n++
			i.change(t, func(h *seedbed.Hook) { h.KeepPayload, h.When = keep, when })
			id, body := fmt.Sprint("msg_", n), create(fmt.Sprint("web", n))
			i.send(t, client, id, body)
			d, err := i.db.Delivery(t.Context(), "ci", id)
			want := ""
			if keep {
				want = body
			}
			if err != nil || d.Decision != decision || string(d.Payload) != want {
				t.Errorf("%s, kept %t: %s with the payload %q (%v)", decision, keep, d.Decision, d.Payload, err)
			}
		}
	}
}

// Who waits is told how the job ended, and why it failed.
func TestWaitForAJob(t *testing.T) {
	t.Parallel()
	i := install(t)
	for n, outcome := range []seedbed.JobResult{{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning},
		{State: seedbed.JobFailed, Error: "no room on the pool"}} {
		answered := make(chan reply, 1)
		go func() {
			r, err := post(t, newClient(t), i.url, fmt.Sprint("msg_", n), create(fmt.Sprint("web", n)), "Prefer", "wait=30")
			if err != nil {
				t.Error(err)
			}
			answered <- r
		}()
		var job *seedbed.Job
		for deadline := time.Now().Add(time.Minute); job == nil; time.Sleep(5 * time.Millisecond) {
			var err error
			if job, err = i.db.ClaimJob(t.Context(), "test", time.Minute); err != nil || time.Now().After(deadline) {
				t.Fatalf("no job: %v", err)
			}
		}
		select {
		case r := <-answered:
			t.Fatalf("answered before the end: %+v", r)
		default:
		}
		if err := i.db.Finish(t.Context(), job.Ref(), outcome); err != nil {
			t.Fatal(err)
		}
		if r := <-answered; r.status != 200 || r.State != outcome.State || r.Job != job.ID || r.Error != outcome.Error {
			t.Errorf("%+v, want 200 with %+v", r, outcome)
		}
	}
}

// What is done to an instance that there is becomes a job of that kind, once.
func TestActions(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	i.change(t, func(h *seedbed.Hook) { h.Actions = seedbed.Actions() })
	made := i.send(t, client, "msg_0", create("web1"))
	i.finish(t, made.Job, seedbed.InstanceRunning)
	for n, step := range []struct {
		body  string
		kind  seedbed.JobKind
		state seedbed.InstanceState
	}{
		{`{"action":"stop","name":"web1","params":{"force":true}}`, seedbed.JobStop, seedbed.InstanceStopped},
		{`{"action":"start","name":"web1"}`, seedbed.JobStart, seedbed.InstanceRunning},
		{`{"action":"reboot","name":"web1"}`, seedbed.JobReboot, seedbed.InstanceRunning},
		{`{"action":"rebuild","name":"web1"}`, seedbed.JobRebuild, seedbed.InstanceRunning},
		{`{"action":"snapshot","name":"web1","params":{"snapshot":"s1"}}`, seedbed.JobSnapshot, seedbed.InstanceRunning},
		{`{"action":"snapshot-restore","name":"web1","params":{"snapshot":"s1","force":true}}`, seedbed.JobSnapshotRestore,
			seedbed.InstanceRunning},
		{`{"action":"snapshot-remove","name":"web1","params":{"snapshot":"s1"}}`, seedbed.JobSnapshotRemove, seedbed.InstanceRunning},
		{`{"action":"remove","name":"web1"}`, seedbed.JobRemove, ""},
	} {
		id := fmt.Sprint("msg_", n+1)
		asked := i.send(t, client, id, step.body)
		if asked.status != 202 || asked.Duplicate || asked.State != seedbed.JobQueued {
			t.Fatalf("%s: %+v", step.body, asked)
		}
		if other := i.send(t, client, id+"b", step.body); other.status != 409 || other.Job != asked.Job {
			t.Errorf("%s, while it is done: %+v, want 409 with the job %s", step.body, other, asked.Job)
		}
		if job := i.finish(t, asked.Job, step.state); job.Kind != step.kind || job.Subject != "web1" {
			t.Errorf("%s: a %s of %q", step.body, job.Kind, job.Subject)
		}
		if again := i.send(t, client, id, step.body); again.status != 202 || !again.Duplicate || again.Job != asked.Job {
			t.Errorf("%s, sent again: %+v", step.body, again)
		}
	}
	for _, action := range []string{"stop", "start", "reboot", "rebuild", "remove"} {
		if r := i.send(t, client, "msg_"+action, fmt.Sprintf(`{"action":%q,"name":"web1"}`, action)); r.status != 422 {
			t.Errorf("%s of what has gone: %+v, want 422", action, r)
		}
	}
}
