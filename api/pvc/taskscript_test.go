package pvc

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestScriptedTask checks the texts and numbers of PVC's vmbuilder.
func TestScriptedTask(t *testing.T) {
	t.Parallel()
	spec, err := json.Marshal(seedbed.ScriptedSpec{Profile: "web", Start: true, Scripted: true})
	if err != nil {
		t.Fatal(err)
	}
	job := func(state seedbed.JobState, stage, why string) seedbed.Job {
		return seedbed.Job{Kind: seedbed.JobCreate, Subject: "web1", Spec: spec, State: state, Stage: stage, Error: why, Done: 3, Total: 12}
	}
	running := func(stage string) seedbed.Job { return job(seedbed.JobRunning, stage, "") }
	for name, test := range map[string]struct {
		job  seedbed.Job
		want taskState
	}{
		"waits":           {job(seedbed.JobQueued, "", ""), taskState{"PENDING", 0, 1, "Pending job start"}},
		"begins":          {running(""), taskState{"RUNNING", 0, 11, "Provisioning new VM 'web1' with profile 'web'"}},
		"collects":        {running("collect"), taskState{"RUNNING", 1, 11, "Collecting configuration details"}},
		"verifies":        {running("verify"), taskState{"RUNNING", 2, 11, "Verifying configuration against cluster"}},
		"loads":           {running("prepare-script"), taskState{"RUNNING", 3, 11, "Preparing provisioning script"}},
		"setup":           {running("setup"), taskState{"RUNNING", 4, 11, "Running script setup() step"}},
		"create":          {running("create"), taskState{"RUNNING", 5, 11, "Running script create() step"}},
		"prepare":         {running("prepare"), taskState{"RUNNING", 6, 11, "Running script prepare() step"}},
		"install":         {running("install"), taskState{"RUNNING", 7, 11, "Running script install() step"}},
		"cleanup":         {running("cleanup"), taskState{"RUNNING", 8, 11, "Running script cleanup() step"}},
		"general cleanup": {running("general-cleanup"), taskState{"RUNNING", 9, 11, "Running general cleanup steps"}},
		"publishes":       {running("publish"), taskState{"RUNNING", 10, 11, "Starting VM"}},
		"starts":          {running("start"), taskState{"RUNNING", 10, 11, "Starting VM"}},
		"finishes":        {running("finish"), taskState{"RUNNING", 11, 11, "Finishing up"}},
		"undoes":          {job(seedbed.JobUndoing, "install", "x"), taskState{"RUNNING", 7, 11, "Undoing what was done, because it failed"}},
		"done": {
			job(seedbed.JobSucceeded, "", ""),
			taskState{"SUCCESS", 11, 11, `VM "web1" with profile "web" has been provisioned and started successfully`},
		},
		"script failed": {job(seedbed.JobRolledBack, "", "stage install: Error in script install() step: no mirror"),
			taskState{"FAILURE", 1, 1, "ProvisioningError: Error in script install() step: no mirror"}},
		"cluster failed": {job(seedbed.JobRolledBack, "", `stage verify: Pool "p" is not present on the cluster`),
			taskState{"FAILURE", 1, 1, `ClusterError: Pool "p" is not present on the cluster`}},
		"cancelled": {job(seedbed.JobRolledBack, "", "cancelled"), taskState{"FAILURE", 1, 1, "ProvisioningError: cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(test.want, taskStateOf(test.job)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestSkippedScriptTask checks that the result of a task says that the script was skipped.
func TestSkippedScriptTask(t *testing.T) {
	t.Parallel()
	spec, err := json.Marshal(seedbed.ScriptedSpec{Profile: "web", Start: true, Skipped: "script build was skipped: for a reason"})
	if err != nil {
		t.Fatal(err)
	}
	got := taskStateOf(seedbed.Job{Kind: seedbed.JobCreate, Subject: "web1", Spec: spec, State: seedbed.JobSucceeded, Total: 5})
	want := taskState{"SUCCESS", 5, 5,
		`VM "web1" with profile "web" has been provisioned and started successfully; script build was skipped: for a reason`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
