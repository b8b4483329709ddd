package pvc

import (
	"fmt"
	"strings"

	"seedbed"
)

// scriptedTotal is the number of stages that PVC's clients expect of a create.
const scriptedTotal = 11

// scriptedStages maps the stages of a create that runs a script to PVC's numbers and names. A stage
// that PVC does not have counts as part of the next.
var scriptedStages = map[string]struct {
	current int
	text    string
}{
	"collect":         {1, "Collecting configuration details"},
	"verify":          {2, "Verifying configuration against cluster"},
	"prepare-script":  {3, "Preparing provisioning script"},
	"setup":           {4, "Running script setup() step"},
	"create":          {5, "Running script create() step"},
	"prepare":         {6, "Running script prepare() step"},
	"install":         {7, "Running script install() step"},
	"cleanup":         {8, "Running script cleanup() step"},
	"general-cleanup": {9, "Running general cleanup steps"},
	"release-volumes": {10, "Starting VM"},
	"publish":         {10, "Starting VM"},
	"start":           {10, "Starting VM"},
	"finish":          {11, "Finishing up"},
}

// scriptedState returns the state of a job that runs a script.
func scriptedState(j seedbed.Job) taskState {
	s := scriptedStages[j.Stage]
	switch j.State {
	case seedbed.JobQueued:
		return taskState{"PENDING", 0, 1, "Pending job start"}
	case seedbed.JobRunning:
		if s.text == "" {
			s.text = doing(j)
		}
		return taskState{"RUNNING", s.current, scriptedTotal, s.text}
	case seedbed.JobUndoing:
		return taskState{"RUNNING", s.current, scriptedTotal, "Undoing what was done, because it failed"}
	case seedbed.JobSucceeded:
		return taskState{"SUCCESS", scriptedTotal, scriptedTotal, success(j)}
	}
	// PVC raises one class of exception before the script, and another from the script on.
	class, why := "ProvisioningError", j.Error
	if stage, rest, ok := strings.Cut(strings.TrimPrefix(why, "stage "), ": "); ok && strings.HasPrefix(why, "stage ") {
		why = rest
		if n := scriptedStages[stage].current; n == 1 || n == 2 {
			class = "ClusterError"
		}
	}
	return taskState{"FAILURE", 1, 1, fmt.Sprintf("%s: %s", class, why)}
}
