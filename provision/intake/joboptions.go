package intake

import (
	"context"
	"errors"

	"seedbed"
)

// resolve returns o with the whole ID of the job that comes before, which is found by the start of
// its ID. The store refuses a whole ID that no job has.
func (in *Intake) resolve(ctx context.Context, project string, o seedbed.JobOptions) (seedbed.JobOptions, error) {
	if o.After == "" || o.After.Whole() {
		return o, nil
	}
	before, err := in.store.FindJob(ctx, seedbed.InProject(project), string(o.After))
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "job %q, which is to come before, does not exist", seedbed.Clip(string(o.After)))
	}
	o.After = before.ID
	return o, err
}

// fresh copies what a request says about a new instance into p, or into the request's parameters if
// the profile has no script, and returns the request with these.
func fresh(req seedbed.Request, p *seedbed.Profile) (seedbed.Request, error) {
	if req.Ready != "" {
		var err error
		if p.Ready, err = seedbed.ParseReady(string(req.Ready)); err != nil {
			return req, err
		}
	}
	if p.Script != "" { // whose parameters may be its script's arguments
		if req.Hold != nil {
			p.Hold = *req.Hold
		}
		if req.Protected != nil {
			p.Protected = *req.Protected
		}
		return req, nil
	}
	given := map[string]any{}
	for name, v := range map[string]*bool{"hold": req.Hold, "protected": req.Protected} {
		if v == nil {
			continue
		}
		if _, twice := req.Params[name]; twice {
			return req, seedbed.Errorf(seedbed.ErrInvalid, "%s is set both in the request and in its params: set it once", name)
		}
		given[name] = *v
	}
	if len(given) > 0 {
		req.Params = over(req.Params, given)
	}
	return req, nil
}
