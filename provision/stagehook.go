package provision

import (
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
)

// Trigger posts one signed event to the endpoint of that name, and gives an error
// unless it was answered with 2xx.
type Trigger func(ctx context.Context, endpoint string, event seedbed.Outgoing) error

// hookFacts is what the endpoint of a stage's hook is told.
type hookFacts struct {
	Job      seedbed.JobID      `json:"job"`
	Kind     seedbed.JobKind    `json:"kind"`
	Subject  string             `json:"subject"`
	Instance seedbed.InstanceID `json:"instance,omitempty"`
	Node     string             `json:"node,omitempty"`
	Stage    string             `json:"stage"`
	When     string             `json:"when"`
}

// hooks runs what is to be run before or after a stage. What is not required may
// fail; what is required is tried until its time is over.
func (t *task) hooks(ctx context.Context, stage, when string) error {
	for i, h := range t.engine.cfg.Hooks {
		if !h.For(t.job.Kind, stage, when) {
			continue
		}
		data, err := json.Marshal(hookFacts{t.job.ID, t.job.Kind, t.job.Subject, t.job.Instance, t.job.Node, stage, when})
		if err != nil {
			return fmt.Errorf("encode hook: %w", err)
		}
		event := seedbed.Outgoing{
			ID:   fmt.Sprintf("hook_%s_%s_%s_%d", t.job.ID, stage, when, i),
			Type: seedbed.EventJobHook, Subject: t.job.Subject, Data: data, At: t.job.Created,
		}
		post := func(_ *task, ctx context.Context) error { return t.engine.cfg.Trigger(ctx, h.Endpoint, event) }
		err = t.perform(ctx, h.Limit(), post, func(error) bool { return true })
		switch {
		case err == nil:
			t.event("info", t.progress, "hook %s the stage: endpoint %s has taken it", when, h.Endpoint)
		case ctx.Err() != nil || h.Required:
			return fmt.Errorf("hook %s the stage, endpoint %s: %w", when, h.Endpoint, err)
		default:
			t.event("warn", t.progress, "hook %s the stage, endpoint %s: %s; going on without it", when, h.Endpoint, err)
		}
	}
	return nil
}
