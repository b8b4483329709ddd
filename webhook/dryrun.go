package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// DryRun returns what h, which need not be saved, would do with a delivery. It does not verify, write
// or count anything.
func (r *Server) DryRun(ctx context.Context, h seedbed.Hook, s seedbed.SampleDelivery) (seedbed.DryRun, error) {
	if _, err := compile(h.When, h.Mapping); err != nil {
		return seedbed.DryRun{}, err
	}
	d := &delivered{hook: h, body: []byte(s.Body), event: event{headers: map[string]string{}, query: s.Query}}
	for name, v := range s.Headers {
		d.event.headers[strings.ToLower(name)] = v
	}
	if d.event.query == nil {
		d.event.query = map[string]string{}
	}
	d.kind = kindOf(cmp.Or(d.event.headers["content-type"], fiber.MIMEApplicationJSON))
	if d.kind == "" || h.Mapping == "" && d.kind != kindJSON {
		return seedbed.DryRun{Problem: "a body of that content type is not accepted"}, nil
	}
	req, matched, err := r.evaluate(ctx, d)
	t := seedbed.DryRun{Matched: matched}
	if err != nil {
		t.Problem = err.Error()
	}
	if !matched || req.Action == "" {
		return t, nil
	}
	t.Request = &req.Request
	switch {
	case err != nil:
	case req.change != nil:
		c, err := r.check(ctx, d.hook, req)
		if _, known := errors.AsType[*seedbed.Error](err); err != nil && (!known || errors.Is(err, seedbed.ErrUnavailable)) {
			return t, err
		}
		if t.Network = c.after; err != nil {
			t.Network, t.Problem = nil, err.Error()
		}
	case makes(req.Action), req.Action == seedbed.DoMigrate, ofNIC(req.Action), ofVolume(req.Action),
		seedbed.SnapshotActions()[req.Action] != "", seedbed.ChangeActions()[req.Action] != "":
		plan, err := r.Intake.Plan(ctx, req.Request)
		if err != nil {
			return t, err
		}
		t.Plan, t.Problem = &plan, strings.Join(plan.Problems, "; ")
	}
	return t, nil
}

// Redeliver processes a delivery of the history again, as a new one and by the current rules. It is
// not verified again. o are options for its job. If the payload was not kept, Redeliver returns
// ErrConflict.
func (r *Server) Redeliver(ctx context.Context, hook, id string, o seedbed.JobOptions) (seedbed.Redelivery, error) {
	old, err := r.History.Delivery(ctx, hook, id)
	if err != nil {
		return seedbed.Redelivery{}, err
	}
	if old.Payload == nil {
		return seedbed.Redelivery{}, seedbed.Errorf(seedbed.ErrConflict,
			"the payload of delivery %q was not kept: for those to come, seedbed hook set %s --keep-payload", seedbed.Clip(id), hook)
	}
	d := &delivered{body: old.Payload, options: o}
	if d.hook, err = r.Hooks.Hook(ctx, hook); err != nil {
		return seedbed.Redelivery{}, err
	}
	d.Hook, d.Peer, d.Received, d.SHA256 = hook, old.Peer, r.Now().UTC(), sha256.Sum256(old.Payload)
	first, _, _ := strings.Cut(id, redelivered)
	d.ID = first + redelivered + strings.ToLower(rand.Text()[:8])
	d.event.headers, d.event.query = unkept(old.Headers)
	d.kind = kindOf(d.event.headers["content-type"])
	d.to = r.Log.With("again", id)
	a, err := r.process(ctx, d)
	return seedbed.Redelivery{ID: d.ID, Decision: a.decision, Job: a.receipt.Job, State: a.receipt.State}, err
}

// redelivered separates the ID of a delivery from the suffix of a redelivery. IDs of senders never
// contain it.
const redelivered = "~"

// compiled caches the compiled rules of hooks.
type compiled struct {
	mu       sync.Mutex
	programs map[[2]string]rules
}

// compiledMost bounds the cache. There are few hooks.
const compiledMost = 256

func (c *compiled) of(h seedbed.Hook) (rules, error) {
	if h.When == "" && h.Mapping == "" {
		return rules{}, nil
	}
	key := [2]string{h.When, h.Mapping}
	c.mu.Lock()
	r, ok := c.programs[key]
	c.mu.Unlock()
	if ok {
		return r, nil
	}
	r, err := compile(h.When, h.Mapping)
	if err != nil {
		return r, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs == nil || len(c.programs) >= compiledMost {
		c.programs = map[[2]string]rules{}
	}
	c.programs[key] = r
	return r, nil
}
