package seedbed

import "time"

// When a StageHook runs: before the first effect of its stage, or once its effects are verified but
// not yet committed.
const (
	HookBefore = "before"
	HookAfter  = "after"
)

const hookTimeout = 30 * time.Second

// StageHook posts a signed webhook to an endpoint, or runs an administrator's script, before or
// after a stage of jobs. A stage that is started again runs its hooks again, under the same ID.
// Undoing a stage does not run its hooks.
type StageHook struct {
	// Kind is the kind of the jobs; empty means all kinds that have the stage.
	Kind  JobKind `yaml:"kind"`
	Stage string  `yaml:"stage"`
	// When is HookBefore or HookAfter.
	When string `yaml:"when"`
	// Endpoint is the name of the endpoint to post to, whatever events it subscribes to; empty with
	// Script.
	Endpoint string `yaml:"endpoint"`
	// Script is the name of a file in the directory of stage hooks on the node whose worker runs
	// the stage; empty with Endpoint.
	Script string `yaml:"script"`
	// Required fails the stage if the endpoint does not answer with 2xx in time, or the script does
	// not exit with status 0. Otherwise the job's history records that, and the stage continues.
	Required bool `yaml:"required"`
	// Timeout is the total time of all attempts. Zero means 30 s.
	Timeout time.Duration `yaml:"timeout"`
}

// For reports whether the hook runs then, for that stage of jobs of that kind.
func (h StageHook) For(kind JobKind, stage, when string) bool {
	return (h.Kind == "" || h.Kind == kind) && h.Stage == stage && h.When == when
}

// Limit returns how long all attempts together may take.
func (h StageHook) Limit() time.Duration {
	if h.Timeout == 0 {
		return hookTimeout
	}
	return h.Timeout
}

// Target returns what the hook reaches, for people to read: "script NAME" or "endpoint NAME".
func (h StageHook) Target() string {
	if h.Script != "" {
		return "script " + h.Script
	}
	return "endpoint " + h.Endpoint
}

// HookFacts is what a stage hook sends to its endpoint. It is the same for every run of the hook.
type HookFacts struct {
	Job      JobID      `json:"job"`
	Kind     JobKind    `json:"kind"`
	Project  string     `json:"project"`
	Subject  string     `json:"subject"`
	Instance InstanceID `json:"instance,omitempty"`
	Node     string     `json:"node,omitempty"`
	Stage    string     `json:"stage"`
	When     string     `json:"when"`
}

// HookRun asks a worker to run the script of a stage hook, and is what the script is given. It does
// not contain secrets.
type HookRun struct {
	Script string `json:"script"`
	// ID is the same for every run of one hook at one stage of one job.
	ID string `json:"id"`
	HookFacts
	// Attempt is how often the stage was started, this time included. Again is true if a run under
	// this ID may have begun before.
	Attempt int  `json:"attempt"`
	Again   bool `json:"again"`
	// Machine is the instance of the job; nil for a job without one.
	Machine *HookMachine `json:"machine,omitempty"`
}

// HookMachine is an instance as the scripts of stage hooks see it.
type HookMachine struct {
	Profile string            `json:"profile"`
	Image   string            `json:"image,omitempty"`
	State   InstanceState     `json:"state"`
	VCPUs   int               `json:"vcpus"`
	Memory  Bytes             `json:"memory"`
	Tags    map[string]string `json:"tags"`
	NICs    []NIC             `json:"nics"`
	Volumes []Volume          `json:"volumes"`
}

// HookResult is how the script of a stage hook ended.
type HookResult struct {
	// Problem is why it failed: its exit status or signal, and its last line of output. It is empty
	// if the script exited with status 0.
	Problem string `json:"problem,omitempty"`
}
