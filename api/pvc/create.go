package pvc

import (
	"context"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// taskAnswer has the task ID with which PVC's client waits.
type taskAnswer struct {
	TaskID   string `json:"task_id"`
	TaskName string `json:"task_name"`
	RunOn    string `json:"run_on"`
}

const createTask = "provisioner.create"

// composeVM creates an instance from a profile. As in PVC's manual, define_vm and start_vm default
// to true.
func (r *router) composeVM(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	req := seedbed.Request{
		Action:    seedbed.DoCreate,
		Name:      f.must("name", "A VM name must be specified."),
		Profile:   f.must("profile", "A profile name must be specified."),
		Off:       f.has("start_vm") && !f.flag("start_vm"),
		Arguments: append([]string{}, arguments(f)...), // parameters are not arguments, whatever the profile declares
		Ready:     seedbed.Ready(f.text("ready")),
		Params:    composedParams(f),

		JobOptions: o,
	}
	if f.err == nil && f.has("define_vm") && !f.flag("define_vm") {
		req.Undefined, req.Off = true, true
	}
	if f.err != nil {
		return f.err
	}
	req.Project = server.CallerOf(c).Project
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return err
	}
	found, err := r.scripted().named(ctx, server.CallerOf(c), req.Profile)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return refused(fiber.StatusBadRequest, `Profile "%s" is not valid.`, req.Profile)
	}
	receipt, err := r.Intake.Submit(ctx, req, nil)
	return r.begun(c, receipt, err, createTask)
}

// composedParams returns the values of the parameters that the profile declares.
func composedParams(f *fields) map[string]any {
	params := map[string]any{}
	for _, p := range f.list("param") {
		key, value, ok := strings.Cut(p, "=")
		if _, twice := params[key]; !ok || twice {
			f.refuse(refused(fiber.StatusBadRequest, "A param is not usable: expected key=value, each key once."))
			break
		}
		params[key] = value
	}
	return params
}

// begun answers with the task of a request, unless err is not nil.
func (r *router) begun(c *fiber.Ctx, receipt seedbed.Receipt, err error, task string) error {
	if err != nil {
		return err
	}
	id := receipt.Job.Short()
	c.Set(fiber.HeaderLocation, server.Prefix+"/tasks/"+id)
	return server.Reply(c, fiber.StatusAccepted, taskAnswer{id, task, r.Node + " (primary)"})
}
