package seedbed

import "time"

// When a StageHook is run: before the first effect of its stage, or when its
// effects are verified and not yet committed.
const (
	HookBefore = "before"
	HookAfter  = "after"
)

const hookTimeout = 30 * time.Second

// StageHook posts a signed webhook to an endpoint before or after a stage of
// jobs. A stage that is started again runs its hooks again, under the same
// webhook-id. Stages that are undone run none.
type StageHook struct {
	// Kind is the kind of the jobs; empty for all that have the stage.
	Kind  JobKind `yaml:"kind"`
	Stage string  `yaml:"stage"`
	// When is HookBefore or HookAfter.
	When string `yaml:"when"`
	// Endpoint is the name of the one that is posted to, whatever events it subscribes to.
	Endpoint string `yaml:"endpoint"`
	// Required fails the stage when the endpoint does not answer with 2xx in time;
	// else the job's history tells of it, and the stage goes on.
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
