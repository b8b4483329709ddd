package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
)

// Trigger posts one signed event to the endpoint of that name. It returns an error unless the
// answer was 2xx.
type Trigger func(ctx context.Context, endpoint string, event seedbed.Outgoing) error

// hooks runs the hooks before or after a stage. A hook that is not required may fail. An endpoint
// is retried until the hook's time is over. A script is run once, unless its worker does not
// answer.
func (t *Task) hooks(ctx context.Context, stage, when string) error {
	for i, h := range t.engine.cfg.Hooks {
		if !h.For(t.Job.Kind, stage, when) {
			continue
		}
		facts := seedbed.HookFacts{Job: t.Job.ID, Kind: t.Job.Kind, Project: t.Job.Project, Subject: t.Job.Subject,
			Instance: t.Job.Instance, Node: t.Job.Node,
			Stage: stage, When: when}
		id := fmt.Sprintf("hook_%s_%s_%s_%d", t.Job.ID, stage, when, i)
		var err error
		if h.Script != "" {
			err = t.runHook(ctx, h, seedbed.HookRun{Script: h.Script, ID: id, HookFacts: facts})
		} else {
			err = t.postHook(ctx, h, id, facts)
		}
		switch {
		case err == nil && h.Script != "":
			t.Event("info", t.reported, "hook %s the stage: %s has ended well", when, h.Target())
		case err == nil:
			t.Event("info", t.reported, "hook %s the stage: %s has received it", when, h.Target())
		case ctx.Err() != nil || errors.Is(err, ErrLost) || h.Required:
			return fmt.Errorf("hook %s the stage, %s: %w", when, h.Target(), err)
		default:
			t.Event("warn", t.reported, "hook %s the stage, %s: %s; going on without it", when, h.Target(), err)
		}
	}
	return nil
}

// postHook posts the hook's facts to its endpoint. Every try sends the same body with the same ID.
func (t *Task) postHook(ctx context.Context, h seedbed.StageHook, id string, facts seedbed.HookFacts) error {
	data, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("encode hook: %w", err)
	}
	event := seedbed.Outgoing{ID: id, Type: seedbed.EventJobHook, Subject: t.Job.Subject, Data: data, At: t.Job.Created}
	post := func(ctx context.Context) error { return t.engine.cfg.Trigger(ctx, h.Endpoint, event) }
	return t.retrying(ctx, h.Limit(), post, func(error) bool { return true })
}

// runHook runs the hook's script on the node that runs the stage. It may have run before if the
// stage was current when the job was claimed.
func (t *Task) runHook(ctx context.Context, h seedbed.StageHook, run seedbed.HookRun) error {
	run.Attempt, run.Again = max(1, t.Job.Attempts), t.resumed == run.Stage
	once := func(ctx context.Context) error {
		machine, err := t.hookMachine(ctx)
		if err != nil {
			return err
		}
		run.Machine = machine
		var result seedbed.HookResult
		err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			result, err = effects.RunHook.Do(ctx, t.Worker(), call, run, effects.OnOutput(t.Output))
			return err
		})
		run.Again = true
		if err == nil && result.Problem != "" {
			err = errors.New(result.Problem)
		}
		return err
	}
	return t.retrying(ctx, h.Limit(), once, Unavailable)
}

// hookMachine returns the job's instance as scripts of hooks see it; nil if there is none, or none
// any more.
func (t *Task) hookMachine(ctx context.Context) (*seedbed.HookMachine, error) {
	if t.Job.Instance == "" {
		return nil, nil
	}
	inst, err := t.Instance(ctx)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &seedbed.HookMachine{Profile: inst.Profile, Image: inst.Image, State: inst.State, VCPUs: inst.VCPUs, Memory: inst.Memory,
		Tags: inst.Tags, NICs: inst.NICs, Volumes: inst.Volumes}, nil
}
