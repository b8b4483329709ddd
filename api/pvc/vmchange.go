package pvc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

const (
	// consoleLines is PVC's default for the number of console lines.
	consoleLines = 10
	// patience is how long a request of PVC's client waits for the job that it started.
	patience = 25 * time.Second
)

func (r *router) vmRoutes(t *table, get, post routing) {
	const p = "/vm"
	const wait = patience + server.CallTimeout
	get(seedbed.ActionInstanceRead, p, r.vms)
	get(seedbed.ActionInstanceRead, p+"/:vm", r.shownVM(func(ctx context.Context, i seedbed.Instance) (any, error) {
		rows, err := r.vmRows(ctx, i)
		if err == nil {
			rows[0].Snapshots, err = r.snapshotsOf(ctx, i, time.Now())
		}
		return rows, err
	}))
	t.add(fiber.MethodDelete, seedbed.ActionInstanceRemove, p+"/:vm", wait, r.parameters, r.starting(r.removeVM))
	t.add(fiber.MethodPut, seedbed.ActionNICManage, p+"/:vm", wait, r.parameters, r.starting(r.modifyVM))
	post(seedbed.ActionNICManage, p+"/:vm/device", r.device(true))
	t.add(fiber.MethodDelete, seedbed.ActionNICManage, p+"/:vm/device", server.CallTimeout, r.parameters, r.device(false))
	get(seedbed.ActionInstanceRead, p+"/:vm/state", r.shownVM(func(_ context.Context, i seedbed.Instance) (any, error) {
		return struct {
			Name  string `json:"name"`
			State string `json:"state"`
		}{i.Name, vmStates[i.State]}, nil
	}))
	t.add(fiber.MethodPost, seedbed.ActionInstancePower, p+"/:vm/state", wait, r.parameters, r.starting(r.setVMState))
	get(seedbed.ActionInstanceRead, p+"/:vm/node", r.shownVM(func(_ context.Context, i seedbed.Instance) (any, error) {
		return struct {
			Name string `json:"name"`
			Node string `json:"node"`
			Last string `json:"last_node"`
		}{i.Name, i.Node, i.Home}, nil
	}))
	t.add(fiber.MethodPost, seedbed.ActionInstanceMigrate, p+"/:vm/node", wait, r.parameters, r.starting(r.setVMNode))
	get(seedbed.ActionInstanceRead, p+"/:vm/tags", r.shownVM(func(_ context.Context, i seedbed.Instance) (any, error) {
		return struct {
			Name string  `json:"name"`
			Tags []vmTag `json:"tags"`
		}{i.Name, vmTags(i)}, nil
	}))
	post(seedbed.ActionInstanceChange, p+"/:vm/tags", r.setVMTag)
	get(seedbed.ActionInstanceRead, p+"/:vm/meta", r.shownVM(func(_ context.Context, i seedbed.Instance) (any, error) {
		row := vmRowOf(i, nil)
		return struct {
			Name          string   `json:"name"`
			NodeLimit     []string `json:"node_limit"`
			NodeSelector  string   `json:"node_selector"`
			NodeAutostart bool     `json:"node_autostart"`
			Migration     string   `json:"migration_method"`
			MaxDowntime   int64    `json:"migration_max_downtime"`
		}{row.Name, row.NodeLimit, row.NodeSelector, row.NodeAutostart, row.MigrationMethod, row.MigrationMaxDown}, nil
	}))
	t.add(fiber.MethodPost, seedbed.ActionInstanceResize, p+"/:vm/meta", wait, r.parameters, r.starting(r.setVMMeta))
	t.add(fiber.MethodPost, seedbed.ActionInstanceResize, p+"/:vm/rename", wait, r.parameters, r.starting(r.renameVM))
	get(seedbed.ActionConsoleRead, p+"/:vm/console", r.vmConsole)
	r.snapshotRoutes(t, p+"/:vm/snapshot")
}

// noSuchVM returns PVC's refusal to change a VM that does not exist. PVC's messages about VMs have
// single quotes; the others have double quotes.
func noSuchVM(c *fiber.Ctx) error {
	return refused(fiber.StatusBadRequest, "ERROR: Could not find VM '%s' in the cluster!", seedbed.Clip(server.Param(c, "vm")))
}

// vmAction is Seedbed's equivalent of a state that PVC's client asks for.
type vmAction struct {
	action string
	params map[string]any
	// running is set if the VM must be running.
	running bool
	// says is the message. done is the message for a caller that waited.
	says, done string
}

var vmActions = map[string]vmAction{
	"start": {action: seedbed.DoStart, says: "Starting VM '%s'.", done: "Starting VM '%s'."},
	"stop": {action: seedbed.DoStop, params: map[string]any{"force": true},
		says: "Forcibly stopping VM '%s'.", done: "Forcibly stopping VM '%s'."},
	"shutdown": {action: seedbed.DoStop, running: true, says: "Shutting down VM '%s'", done: "Shut down VM '%s'"},
	"restart":  {action: seedbed.DoReboot, running: true, says: "Restarting VM '%s'.", done: "Restarted VM '%s'"},
}

func (r *router) setVMState(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	state, wait := f.must("state", "A valid state must be specified"), f.flag("wait")
	if f.err != nil {
		return f.err
	}
	if state == "disable" {
		return refused(fiber.StatusBadRequest, "State disable is not supported: a VM of Seedbed that is stopped stays off until it is started.")
	}
	a, known := vmActions[state]
	if !known {
		return &refusal{status: fiber.StatusBadRequest, message: map[string]string{"state": "A valid state must be specified"}}
	}
	i, err := r.vm(ctx, c, noSuchVM(c))
	if err != nil {
		return err
	}
	if a.running && i.State != seedbed.InstanceRunning {
		return refused(fiber.StatusBadRequest, "ERROR: VM '%s' is not in 'start' state!", i.Name)
	}
	receipt, err := r.Intake.Submit(ctx, seedbed.Request{
		Action: a.action, Project: i.Project, Name: i.Name, Params: a.params, JobOptions: o,
	}, nil)
	if err != nil {
		return err
	}
	if !wait {
		return say(c, a.says, i.Name)
	}
	ended, err := r.awaitEnd(ctx, receipt.Job)
	if err != nil {
		return err
	}
	if !ended {
		return say(c, a.says+" Task %s continues.", i.Name, receipt.Job.Short())
	}
	return say(c, a.done, i.Name)
}

// vmMove is what PVC says of an action that takes a VM to another node. The messages have the name of the VM and that of the node.
type vmMove struct {
	params     map[string]any
	says, done string
}

var vmMoves = map[string]vmMove{
	"move": {params: map[string]any{"stay": true}, says: "Permanently migrating VM '%s' to node '%s'.",
		done: "Permanently migrated VM '%s' to node '%s'"},
	"migrate": {says: "Migrating VM '%s' to node '%s'.", done: "Migrated VM '%s' to node '%s'"},
	"unmigrate": {params: map[string]any{"back": true}, says: "Unmigrating VM '%s' back to node '%s'.",
		done: "Unmigrated VM '%s' back to node '%s'"},
}

// setVMNode takes a VM to another node, while it runs unless its system template says otherwise.
func (r *router) setVMNode(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	action, node := f.must("action", "A valid action must be specified"), f.text("node")
	force, wait, live := f.flag("force"), f.flag("wait"), f.flag("force_live")
	if f.err != nil {
		return f.err
	}
	m, known := vmMoves[action]
	if !known {
		return &refusal{status: fiber.StatusBadRequest, message: map[string]string{"action": "A valid action must be specified"}}
	}
	i, err := r.vm(ctx, c, noSuchVM(c))
	if err != nil {
		return err
	}
	switch {
	case action == "migrate" && i.Home != "" && !force:
		return refused(fiber.StatusBadRequest, "ERROR: VM '%s' has been previously migrated.", i.Name)
	case action == "unmigrate" && i.Home == "":
		return refused(fiber.StatusBadRequest, "ERROR: VM '%s' has not been previously migrated.", i.Name)
	case action == "unmigrate":
		node = ""
	case node == i.Node:
		return refused(fiber.StatusBadRequest, "ERROR: VM '%s' is already running on node '%s'.", i.Name, seedbed.Clip(node))
	case node != "" && len(i.System.NodeLimit) > 0 && !slices.Contains(i.System.NodeLimit, node):
		return refused(fiber.StatusBadRequest, "ERROR: Specified node '%s' is not in the allowed list of nodes for VM '%s'.",
			seedbed.Clip(node), i.Name)
	case node != "":
		if _, err := r.Store.Node(ctx, node); errors.Is(err, seedbed.ErrNotFound) {
			return refused(fiber.StatusBadRequest, "ERROR: Specified node '%s' is invalid.", seedbed.Clip(node))
		}
	}
	params := maps.Clone(m.params)
	if params == nil {
		params = map[string]any{}
	}
	if params["method"] = i.LeavesBy(false); live && params["method"] != "" {
		params["method"] = seedbed.MigrateLive
	}
	receipt, err := r.Intake.Submit(ctx, seedbed.Request{
		Action: seedbed.DoMigrate, Project: i.Project, Name: i.Name, Node: node, Params: params, JobOptions: o,
	}, nil)
	if err != nil {
		return err
	}
	var spec seedbed.MigrateSpec
	job, err := r.Store.Job(ctx, receipt.Job)
	if err == nil {
		err = json.Unmarshal(job.Spec, &spec)
	}
	if err != nil {
		return err
	}
	if !wait {
		return say(c, m.says, i.Name, spec.To)
	}
	ended, err := r.awaitEnd(ctx, receipt.Job)
	if err != nil {
		return err
	}
	if !ended {
		return say(c, m.says+" Task %s continues.", i.Name, spec.To, receipt.Job.Short())
	}
	return say(c, m.done, i.Name, spec.To)
}

// removeVM removes a VM with its disks, if delete_disks is true. If it is false, its disks become volumes.
func (r *router) removeVM(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	disks := f.flag("delete_disks")
	if f.err != nil {
		return f.err
	}
	i, err := r.vm(ctx, c, noSuchVM(c))
	if err != nil {
		return err
	}
	done, begun := "Removed VM '%s' and its disks from the cluster.", "Removing VM '%s' and its disks from the cluster. Task %s continues."
	if !disks {
		done, begun = "Undefined VM '%s' from the cluster.", "Undefining VM '%s' from the cluster. Task %s continues."
	}
	receipt, err := r.Intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRemove, Project: i.Project, Name: i.Name, KeepDisks: !disks,
		JobOptions: o}, nil)
	if err != nil {
		return err
	}
	ended, err := r.awaitEnd(ctx, receipt.Job)
	if err != nil {
		return err
	}
	if !ended {
		return say(c, begun, i.Name, receipt.Job.Short())
	}
	return say(c, done, i.Name)
}

// awaitEnd waits for a job, and reports whether it has ended. It returns an error if the job
// failed.
func (r *router) awaitEnd(ctx context.Context, id seedbed.JobID) (ended bool, err error) {
	over := time.Now().Add(patience)
	for seq := int64(0); ; {
		p, err := r.Await(ctx, id, seq, max(0, time.Until(over)))
		if err != nil {
			return false, err
		}
		switch {
		case p.Job.State == seedbed.JobSucceeded:
			return true, nil
		case p.Job.State.Terminal():
			return true, refused(fiber.StatusBadRequest, "ERROR: %s", server.Sentence(p.Job.Error))
		case len(p.Events) == 0: // the time has passed, the server stops, or too many requests wait
			return false, nil
		}
		seq = p.Events[len(p.Events)-1].Seq
	}
}

// setVMTag adds a tag to a VM or removes it. A tag of PVC is a word, which becomes the key of a tag without a value.
func (r *router) setVMTag(ctx context.Context, c *fiber.Ctx, f *fields) error {
	action, tag := f.must("action", tagAction), f.must("tag", "A tag must be specified")
	if f.err != nil {
		return f.err
	}
	if action != "add" && action != "remove" {
		return &refusal{status: fiber.StatusBadRequest, message: map[string]string{"action": tagAction}}
	}
	i, err := r.vm(ctx, c, vmNotFound())
	if err != nil {
		return err
	}
	name := i.Name
	_, err = r.Change(ctx, i.FullName(), func(i *seedbed.Instance) error {
		_, there := i.Tags[tag]
		switch {
		case action == "remove" && !there:
			return refused(fiber.StatusBadRequest, "The tag '%s' does not exist.", seedbed.Clip(tag))
		case action == "remove":
			delete(i.Tags, tag)
		case i.Tags == nil:
			i.Tags = map[string]string{tag: ""}
		case !there:
			i.Tags[tag] = ""
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case action == "remove":
		return say(c, "Successfully removed tag '%s' from VM '%s'.", tag, name)
	}
	return say(c, "Successfully added tag '%s' to VM '%s'.", tag, name)
}

// tagAction is PVC's message for an action on a tag that it does not have.
const tagAction = "Tag action must be one of 'add', 'remove'."

// vmConsole answers the last lines of a VM's console.
func (r *router) vmConsole(ctx context.Context, c *fiber.Ctx, f *fields) error {
	lines := consoleLines
	if f.has("lines") {
		lines = f.number("lines", "The number of lines must be an integer.")
	}
	if f.err != nil {
		return f.err
	}
	i, err := r.vm(ctx, c,
		refused(fiber.StatusBadRequest, `ERROR: Could not find VM "%s" in the cluster!`, seedbed.Clip(server.Param(c, "vm"))))
	if err != nil {
		return err
	}
	text, err := r.Console.Console(ctx, i.Node, i.ID, server.MaxTail)
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) { // an instance that never ran has no console
		return err
	}
	return server.Reply(c, fiber.StatusOK, struct {
		Name string `json:"name"`
		Data string `json:"data"`
	}{i.Name, strings.ToValidUTF8(string(lastLines(text, lines)), "\uFFFD")})
}

// lastLines returns the last n lines of a text. As in PVC, the text after the last line end counts
// as a line, even if empty.
func lastLines(text []byte, n int) []byte {
	if n <= 0 {
		return nil
	}
	for at := len(text); ; {
		at = bytes.LastIndexByte(text[:at], '\n')
		if n--; at < 0 {
			return text
		}
		if n == 0 {
			return text[at+1:]
		}
	}
}
