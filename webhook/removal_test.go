package webhook_test

import (
	"testing"
	"time"

	"seedbed"
)

// A webhook that removes what another has just asked for is told which job that cancels, and a
// repetition gives the same job.
func TestRemoveWhileMade(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	made := i.send(t, client, "msg_1", create("web1"))
	if job, err := i.db.ClaimJob(t.Context(), "test", time.Minute); err != nil || job.ID != made.Job {
		t.Fatalf("claimed %+v, %v; want %s", job, err, made.Job)
	}
	const remove = `{"action":"remove","name":"web1"}`
	removed := i.send(t, client, "msg_2", remove)
	if removed.status != 202 || removed.Cancels != made.Job || removed.State != seedbed.JobQueued {
		t.Errorf("%+v; want one that cancels %s", removed, made.Job)
	}
	if again := i.send(t, client, "msg_2", remove); again.Job != removed.Job || !again.Duplicate {
		t.Errorf("once more: %+v", again)
	}
	if third := i.send(t, client, "msg_3", remove); third.status != 409 {
		t.Errorf("another removal: %+v", third)
	}
	job, err := i.db.Job(t.Context(), made.Job)
	if err != nil || !job.Cancel {
		t.Errorf("%+v, %v", job, err)
	}
}
