package pvc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// taskState is a job as PVC's client follows it.
type taskState struct {
	State   string `json:"state"`
	Current int    `json:"current"`
	Total   int    `json:"total"`
	Status  string `json:"status"`
}

// stageTexts describes the stages of a create job.
var stageTexts = map[string]string{
	"volumes": "Creating volumes",
	"define":  "Defining VM",
	"publish": "Publishing metadata",
	"start":   "Starting VM",
	"ready":   "Finishing up",

	"release-volumes": "Finishing up",
}

// composedOf returns the request of a job. It reports false if the job does not make an instance
// from a profile with a script.
func composedOf(j seedbed.Job) (spec seedbed.ScriptedSpec, ok bool) {
	if j.Kind != seedbed.JobCreate || len(j.Spec) == 0 || json.Unmarshal(j.Spec, &spec) != nil {
		return spec, false
	}
	return spec, true
}

func taskStateOf(j seedbed.Job) taskState {
	if spec, ok := composedOf(j); ok && spec.Scripted {
		return scriptedState(j)
	}
	total := max(j.Total, 1)
	switch j.State {
	case seedbed.JobQueued:
		return taskState{"PENDING", 0, 1, "Pending job start"}
	case seedbed.JobRunning:
		return taskState{"RUNNING", inHand(j), total, doing(j)}
	case seedbed.JobUndoing:
		return taskState{"RUNNING", j.Done, total, "Undoing what was done, because it failed"}
	case seedbed.JobSucceeded:
		return taskState{"SUCCESS", total, total, success(j)}
	}
	return taskState{"FAILURE", 1, 1, "ProvisioningError: " + j.Error}
}

// inHand returns the number of the current stage, from 1, or 0 before the first.
func inHand(j seedbed.Job) int {
	if j.Stage == "" {
		return j.Done
	}
	return j.Done + 1
}

// doing describes the current stage of a job.
func doing(j seedbed.Job) string {
	if text, known := stageTexts[j.Stage]; known {
		return text
	}
	if j.Stage != "" {
		return "Running stage " + j.Stage
	}
	if spec, ok := composedOf(j); ok {
		return fmt.Sprintf("Provisioning new VM '%s' with profile '%s'", j.Subject, spec.Profile)
	}
	return fmt.Sprintf(`Starting the %s of "%s"`, j.Kind, j.Subject)
}

// success returns the last status of a job.
func success(j seedbed.Job) string {
	if spec, ok := composedOf(j); ok {
		started := ""
		if spec.Start {
			started = " and started"
		}
		text := fmt.Sprintf(`VM "%s" with profile "%s" has been provisioned%s successfully`, j.Subject, spec.Profile, started)
		if spec.Skipped != "" {
			text += "; " + spec.Skipped
		}
		return text
	}
	return fmt.Sprintf(`The %s of "%s" has ended successfully`, j.Kind, j.Subject)
}

// task answers the state of a job. An unknown job is 404; PVC would report it as pending for
// ever.
func (r *router) task(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	id := server.Param(c, "id")
	missing := refused(fiber.StatusNotFound, `The task "%s" does not exist.`, seedbed.Clip(id))
	if !server.JobForm.MatchString(id) {
		return missing
	}
	j, err := r.Store.FindJob(ctx, server.CallerOf(c).Scope(), id)
	if errors.Is(err, seedbed.ErrNotFound) {
		return missing
	}
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, taskStateOf(server.JobFor(c, j)))
}

// taskRow is a live job as PVC lists it.
type taskRow struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Type         string         `json:"type"`
	Args         []string       `json:"args"`
	Kwargs       map[string]any `json:"kwargs"`
	Hostname     string         `json:"hostname"`
	TimeStart    *float64       `json:"time_start"`
	Acknowledged bool           `json:"acknowledged"`
	DeliveryInfo map[string]any `json:"delivery_info"`
	WorkerPID    *int           `json:"worker_pid"`
}

// taskList holds every live job, by what it waits for and by the engine that runs it.
type taskList struct {
	Scheduled map[string][]taskRow `json:"scheduled"`
	Active    map[string][]taskRow `json:"active"`
	Reserved  map[string][]taskRow `json:"reserved"`
}

const maxTasks = 1000

func (r *router) tasks(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	return r.answerTasks(ctx, c, false)
}

// legacyTasks is tasks for clients up to 0.9.80, which read the names of the VM and the profile
// from args.
func (r *router) legacyTasks(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	return r.answerTasks(ctx, c, true)
}

func (r *router) answerTasks(ctx context.Context, c *fiber.Ctx, legacy bool) error {
	live, err := r.Store.LiveJobs(ctx, seedbed.InProject(server.CallerOf(c).Project), maxTasks)
	if err != nil {
		return err
	}
	all := taskList{map[string][]taskRow{}, map[string][]taskRow{}, map[string][]taskRow{}}
	for _, j := range live {
		row := r.taskRowOf(j, legacy)
		in := all.Active
		if j.State == seedbed.JobQueued {
			in = all.Reserved
		}
		in[row.Hostname] = append(in[row.Hostname], row)
	}
	return server.Reply(c, fiber.StatusOK, all)
}

func (r *router) taskRowOf(j seedbed.Job, legacy bool) taskRow {
	node := cmp.Or(j.Node, r.Node)
	row := taskRow{
		ID: j.ID.Short(), Name: "provisioner." + string(j.Kind), Args: []string{}, Hostname: "pvcworkerd@" + node,
		Kwargs:       map[string]any{"vm_name": j.Subject, "run_on": node},
		Acknowledged: j.State != seedbed.JobQueued, DeliveryInfo: map[string]any{},
	}
	row.Type = row.Name
	if !j.Started.IsZero() {
		at := float64(j.Started.UnixMicro()) / 1e6
		row.TimeStart = &at
	}
	spec, composed := composedOf(j)
	if composed {
		row.Kwargs["profile_name"], row.Kwargs["define_vm"], row.Kwargs["start_vm"], row.Kwargs["script_run_args"] =
			spec.Profile, !spec.Undefined, spec.Start, []string{}
	}
	if legacy {
		row.Args = []string{j.Subject, spec.Profile}
		row.Kwargs["define_vm"], row.Kwargs["start_vm"] = !spec.Undefined, !composed || spec.Start
	}
	return row
}
