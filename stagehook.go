package seedbed

import "time"

// When a StageHook is run: before the first effect of its stage, or when its
// effects are verified and not yet committed.
const (
	HookBefore = "before"
	HookAfter  = "after"
)

const hookTimeout = 30 * time.Second

// StageHook posts a signed webhook to an endpoint, or runs a script of the
// administrator's, before or after a stage of jobs. A stage that is started
// again runs its hooks again, under the same ID. Stages that are undone run none.
type StageHook struct {
	// Kind is the kind of the jobs; empty for all that have the stage.
	Kind  JobKind `yaml:"kind"`
	Stage string  `yaml:"stage"`
	// When is HookBefore or HookAfter.
	When string `yaml:"when"`
	// Endpoint is the name of the one that is posted to, whatever events it
	// subscribes to; empty with Script.
	Endpoint string `yaml:"endpoint"`
	// Script is the name of a file in the directory of hooks on the host whose
	// worker runs the stage; empty with Endpoint.
	Script string `yaml:"script"`
	// Required fails the stage when the endpoint does not answer with 2xx in time, or
	// the script does not end with status 0; else the job's history tells of it, and
	// the stage goes on.
	Required bool `yaml:"required"`
	// Timeout is that of all attempts together. Zero is 30 s.
	Timeout time.Duration `yaml:"timeout"`
}

// For tells whether the hook is of that stage of jobs of that kind.
func (h StageHook) For(kind JobKind, stage, when string) bool {
	return (h.Kind == "" || h.Kind == kind) && h.Stage == stage && h.When == when
}

// Limit is how long all of its attempts may take.
func (h StageHook) Limit() time.Duration {
	if h.Timeout == 0 {
		return hookTimeout
	}
	return h.Timeout
}

// Target says what the hook reaches, for people to read: "script NAME" or "endpoint NAME".
func (h StageHook) Target() string {
	if h.Script != "" {
		return "script " + h.Script
	}
	return "endpoint " + h.Endpoint
}

// HookFacts is what the endpoint of a stage's hook is told, the same each time
// that the hook is run.
type HookFacts struct {
	Job      JobID      `json:"job"`
	Kind     JobKind    `json:"kind"`
	Subject  string     `json:"subject"`
	Instance InstanceID `json:"instance,omitempty"`
	Node     string     `json:"node,omitempty"`
	Stage    string     `json:"stage"`
	When     string     `json:"when"`
}

// HookRun asks a worker to run a script of its administrator's, and is what that
// is told. It holds no secret.
type HookRun struct {
	Script string `json:"script"`
	// ID is the same for every run of one hook at one stage of one job.
	ID string `json:"id"`
	HookFacts
	// Attempt is how often the stage was started, this time included. Again is true
	// when a run under this ID may have begun before.
	Attempt int  `json:"attempt"`
	Again   bool `json:"again"`
	// Machine is the instance of the job; nil for a job of none.
	Machine *HookMachine `json:"machine,omitempty"`
}

// HookMachine is an instance as scripts of hooks know it.
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

// HookResult is how a script of a hook ended.
type HookResult struct {
	// Problem is why it counts as failed: its exit status or signal, and the last
	// line that it put out. Empty when it has ended with status 0.
	Problem string `json:"problem,omitempty"`
}
