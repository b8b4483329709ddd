package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// power accepts a request to start, stop or reboot an instance. A profile in the request must be
// the instance's own.
func (in *Intake) power(ctx context.Context, kind seedbed.JobKind, req seedbed.Request,
	delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	spec, rest, err := powerSpec(req.Params)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if len(rest) > 0 {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid, "param %q is unknown: action %s accepts force, soft and grace",
			seedbed.Clip(slices.Sorted(maps.Keys(rest))[0]), req.Action)
	}
	if kind != seedbed.JobStart {
		req.Params = nil
	}
	inst, err := in.existing(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if kind != seedbed.JobStop {
		if err := notExpired(inst); err != nil {
			return seedbed.Receipt{}, err
		}
	}
	job := jobOn(inst, kind, req.JobOptions)
	if kind != seedbed.JobStart {
		if job.Spec, err = json.Marshal(spec); err != nil {
			return seedbed.Receipt{}, fmt.Errorf("encode %s of %s: %w", kind, inst.Name, err)
		}
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery})
}

// notExpired returns ErrConflict for an instance that has expired: what would start it is refused.
func notExpired(inst seedbed.Instance) error {
	if !inst.Expiry.Over(time.Now()) {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "instance %q expired at %s and would be stopped again: extend it first "+
		"(seedbed vm extend %s --by 2h)", inst.Name, inst.Expiry.Time.Format(time.RFC3339), inst.Name)
}

// powerSpec parses the parameters that say how an instance is switched off, and returns the others.
func powerSpec(params map[string]any) (spec seedbed.PowerSpec, rest map[string]any, err error) {
	rest = maps.Clone(params)
	for name, into := range map[string]*bool{"force": &spec.Force, "soft": &spec.Soft} {
		v, given := rest[name]
		if !given {
			continue
		}
		on, ok := v.(bool)
		if !ok {
			return spec, nil, seedbed.Errorf(seedbed.ErrInvalid, "param %s is %s: expected true or false", name, kindOf(v))
		}
		*into = on
		delete(rest, name)
	}
	if v, given := rest["grace"]; given {
		text, ok := v.(string)
		if spec.Grace, err = seedbed.ParseDuration(text); !ok || err != nil || spec.Grace < time.Second || spec.Grace > seedbed.MaxGrace {
			return spec, nil, seedbed.Errorf(seedbed.ErrInvalid, "param grace is not usable: expected a duration such as \"90s\", from 1s to %s",
				seedbed.MaxGrace)
		}
		delete(rest, "grace")
	}
	if spec.Force && (spec.Soft || spec.Grace > 0) {
		return spec, nil, seedbed.Errorf(seedbed.ErrInvalid, "param force switches off at once: it cannot be combined with soft or grace")
	}
	return spec, rest, nil
}

// jobOn returns a new job on an instance.
func jobOn(inst seedbed.Instance, kind seedbed.JobKind, o seedbed.JobOptions) seedbed.Job {
	return seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, State: seedbed.JobQueued, Project: inst.Project, Subject: inst.Name,
		Instance: inst.ID, Node: inst.Node, JobOptions: o}
}

// existing returns the instance of a request other than a create. A profile in the request must be
// the instance's own: a hook that is bound to profiles names it.
func (in *Intake) existing(ctx context.Context, req seedbed.Request) (seedbed.Instance, error) {
	if len(req.Params) > 0 {
		return seedbed.Instance{}, seedbed.Errorf(seedbed.ErrInvalid, "action %s has no params, but got %s", req.Action,
			seedbed.Clip(strings.Join(slices.Sorted(maps.Keys(req.Params)), ", ")))
	}
	inst, err := in.store.InstanceByName(ctx, seedbed.Named(req.Project, req.Name))
	if err != nil || req.Profile == "" {
		return inst, err
	}
	meant, err := seedbed.Meant(seedbed.PublishedProfile, req.Project, req.Profile)
	if err == nil && !slices.Contains(meant, inst.Profile) {
		err = seedbed.Errorf(seedbed.ErrConflict, "instance %s is not of profile %q", inst.Name, seedbed.Clip(req.Profile))
	}
	return inst, err
}
