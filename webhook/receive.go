package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// receiver is a Server on one listener.
type receiver struct {
	*Server
	gate  httpserve.Gate
	base  context.Context
	conns *httpserve.ConnLimiter
	// bodies bounds what all requests together have in memory.
	bodies *httpserve.Budget
	// stopping ends waits for jobs.
	stopping <-chan struct{}
}

// delivered is one delivery while it is processed.
type delivered struct {
	seedbed.Delivery
	hook  seedbed.Hook
	event event
	kind  string
	body  []byte
	// options are those that a redelivery has for its job.
	options seedbed.JobOptions
	// drop returns the memory of the body to the budget.
	drop func()
	to   *slog.Logger
}

// log returns a logger with what is known about d so far.
func (d *delivered) log() *slog.Logger {
	about := []any{"hook", seedbed.Clip(d.Hook), "peer", d.Peer}
	if d.SHA256 != (seedbed.Digest{}) {
		about = append(about, "sha256", d.SHA256.String())
	}
	if d.ID != "" {
		about = append(about, "delivery", d.ID)
	}
	return d.to.With(about...)
}

func (r *receiver) receive(c *fiber.Ctx) error {
	if !r.gate.Enter() {
		return refuse(fiber.StatusServiceUnavailable, "the server is stopping")
	}
	defer r.gate.Leave()
	if r.conns.Dense() {
		c.Context().SetConnectionClose()
	}
	began := time.Now()
	f := httpserve.FieldsOf(c.Context())
	d := &delivered{drop: func() {}, to: r.Log}
	defer func() { d.drop() }()
	from := peerOf(c.Context().RemoteAddr(), f, r.TrustedProxies)
	d.Hook, d.Peer, d.Received = hookOfPath(c), from.addr.String(), r.Now().UTC()
	ctx, cancel := context.WithTimeout(r.base, submitTimeout)
	defer cancel()
	if err := r.prove(ctx, c, d, f, from); err != nil {
		return r.counts.refused(d, err)
	}
	leave, wait := r.rateLimiters.enter(d.hook, d.Received)
	if leave == nil {
		d.log().Warn("webhook throttled", "err", "the hook is at its limit")
		return r.counts.refused(d, busy(c, wait, "the hook is at its limit; try again later"))
	}
	defer leave()
	if err := r.slow(ctx, c, d); err != nil {
		return r.counts.refused(d, err)
	}
	d.Headers, d.event.query = shown(f, d.hook), queryOf(string(c.Context().QueryArgs().QueryString()))
	d.event.headers = d.Headers
	a, err := r.process(ctx, d)
	r.counts.count(d, a, err, time.Since(began))
	if err != nil {
		return err
	}
	return r.answer(c, f, a)
}

// hookOfPath returns the qualified name of the hook that the path names.
func hookOfPath(c *fiber.Ctx) string {
	return seedbed.Qualified(cmp.Or(c.Params("project"), seedbed.DefaultProject), c.Params("name"))
}

var (
	errPayload    = errors.New("the payload is not valid")
	errNotAllowed = errors.New("the hook does not allow what the payload asks for")
)

// process decides what a verified delivery means, does it, and logs the outcome. It logs the digest
// of the body, but never the body, a signature or a key. The history of a project's hook says nothing of
// nodes, also if an admin of the installation asks for a redelivery.
func (r *Server) process(ctx context.Context, d *delivered) (outcome, error) {
	if d.hook.Project != seedbed.DefaultProject {
		ctx = seedbed.AsTenant(ctx)
	}
	req, matched, err := r.evaluate(ctx, d)
	if err != nil || !matched { // by rules that may be newer than its job
		if receipt, _ := r.History.EarlierReceipt(ctx, d.Delivery); receipt != nil {
			return earlier(d, receipt), nil
		}
	}
	switch {
	case err != nil:
	case !matched:
		d.log().Info("webhook ignored")
		err = r.record(ctx, d, seedbed.DecisionIgnored, "")
		return outcome{decision: seedbed.DecisionIgnored, delivery: d.ID}, orUnavailable(err)
	case req.Action == seedbed.DoPlan:
		var plan seedbed.Plan
		if plan, err = r.Intake.Plan(ctx, req.Request); err == nil {
			err = r.record(ctx, d, seedbed.DecisionPlanned, strings.Join(plan.Problems, "; "))
			return outcome{decision: seedbed.DecisionPlanned, delivery: d.ID, plan: &plan}, orUnavailable(err)
		}
	case req.change != nil:
		var made outcome
		if made, err = r.change(ctx, d, req); err == nil {
			return made, nil
		}
	default:
		d.Quota = seedbed.Quota{Instances: d.hook.Instances, Creates: d.hook.Creates}
		entry := d.entry()
		leave, full := r.queue(ctx, d)
		if full != nil {
			return outcome{}, full
		}
		req.JobOptions = d.options.Over(req.JobOptions)
		var receipt seedbed.Receipt
		receipt, err = r.Intake.Submit(ctx, req.Request, &entry)
		if err != nil || receipt.Duplicate {
			leave()
		}
		if err == nil {
			if d.to.Enabled(ctx, slog.LevelInfo) {
				d.log().Info("webhook accepted", "job", receipt.Job, "action", req.Action, "instance", seedbed.Clip(req.Name),
					"duplicate", receipt.Duplicate)
			}
			return earlier(d, &receipt), nil
		}
	}
	return outcome{}, r.refused(ctx, d, err)
}

// refused returns the answer to a verified delivery that was not accepted, and records the
// delivery.
func (r *Server) refused(ctx context.Context, d *delivered, err error) error {
	p, ok := errors.AsType[httpserve.Problem](err)
	if !ok {
		p = problemOf(err)
	}
	switch { // the sender and the history are told more: the text may quote the payload
	case ok || errors.Is(err, seedbed.ErrInvalid):
		err = errPayload
	case errors.Is(err, seedbed.ErrForbidden):
		err = errNotAllowed
	}
	d.log().Warn("webhook not accepted", "status", p.Status, "err", err)
	if p.Status != fiber.StatusServiceUnavailable {
		if err := r.record(ctx, d, seedbed.DecisionRefused, p.Detail); err != nil {
			d.log().Error("refused webhook not recorded", "err", err)
		}
	}
	return p
}

// evaluate decodes a verified body, evaluates the hook's rules, and checks that the resulting
// request is allowed.
func (r *Server) evaluate(ctx context.Context, d *delivered) (req asked, matched bool, err error) {
	rules, err := r.compiled.of(d.hook)
	if err != nil {
		return req, false, err
	}
	if d.hook.When != "" || d.hook.Mapping != "" {
		if d.event.body, err = decodeBody(d.kind, d.body); err != nil {
			return req, false, refuse(fiber.StatusBadRequest, err.Error())
		}
		if matched, err := rules.matches(ctx, d.event); err != nil || !matched {
			return req, false, err
		}
	}
	var p payload
	if d.hook.Mapping != "" {
		p, err = rules.request(ctx, d.event)
	} else if p, err = decode(d.body); err != nil {
		err = refuse(fiber.StatusBadRequest, err.Error())
	}
	if err != nil {
		return req, true, err
	}
	if p.Priority == nil && d.hook.Priority < 0 && !jobless(p.Action) { // the hook's maximum is below the default
		p.Priority = d.hook.Priority.String()
	}
	if req, err = p.request(); err != nil {
		return req, true, err
	}
	req.Project = d.hook.Project
	return req, true, r.allowed(ctx, d.hook, req.Request)
}

// allowed checks whether the hook may make the request; see check for those without a job. For an existing instance it checks the
// instance's profile and the requested one.
func (r *Server) allowed(ctx context.Context, hook seedbed.Hook, req seedbed.Request) error {
	if !allowsAction(hook, req.Action) {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the action %q", seedbed.Clip(req.Action))
	}
	if req.AtExpiry == seedbed.ExpiryRemove && !allowsAction(hook, seedbed.DoRemove) {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the action %q, which at_expiry asks for", seedbed.DoRemove)
	}
	if jobless(req.Action) {
		return nil
	}
	if req.Priority > hook.Priority {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the priority %s: expected at most %s", req.Priority, hook.Priority)
	}
	if hook.Project != seedbed.DefaultProject && req.Node != "" {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook's project cannot choose a node: the placement chooses one")
	}
	if hook.Project != seedbed.DefaultProject && req.Action == seedbed.DoSet && req.Params["vnc_bind"] != nil {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook's project cannot choose the address of a screen: "+
			"it listens on the loopback address")
	}
	if len(hook.Profiles) > 0 && !ofNIC(req.Action) && (req.Image+req.Network != "" || req.NICs != nil ||
		req.SecurityGroups != nil || req.Params["cdrom"] != nil || req.Action == seedbed.DoClone && req.Params["networks"] != nil) {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow an image or a network: expected what its profiles have")
	}
	name := req.Name
	if ofVolume(req.Action) {
		if err := allowsVolume(hook, req); err != nil || req.Volume.Attach.Instance == "" {
			return err
		}
		name = req.Volume.Attach.Instance
	}
	profile, err := r.profileMeant(ctx, hook, req.Profile)
	if err != nil {
		return err
	}
	if !makes(req.Action) && len(hook.Profiles) > 0 {
		if err := seedbed.CheckInstanceName(name); err != nil {
			return err
		}
		instance, err := r.Hooks.InstanceByName(ctx, seedbed.Named(hook.Project, name))
		if errors.Is(err, seedbed.ErrNotFound) {
			return nil // Submit answers a repeated delivery and refuses any other
		}
		if err != nil {
			return err
		}
		profile = instance.Profile
	}
	if !allowsProfile(hook, profile) {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the profile %q", seedbed.Clip(profile))
	}
	return nil
}

// profileMeant returns the qualified name of the profile that a delivery names, if the hook allows only some.
// It returns ErrForbidden for another, whether it exists or not.
func (r *Server) profileMeant(ctx context.Context, hook seedbed.Hook, name string) (string, error) {
	if name == "" || len(hook.Profiles) == 0 {
		return name, nil
	}
	profile, err := r.Hooks.Resolve(ctx, seedbed.PublishedProfile, hook.Project, name)
	switch {
	case errors.Is(err, seedbed.ErrNotFound), errors.Is(err, seedbed.ErrInvalid), err == nil && !allowsProfile(hook, profile):
		return "", seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the profile %q", seedbed.Clip(name))
	}
	return profile, err
}

// entry returns the delivery in the form of the history.
func (d *delivered) entry() seedbed.Delivery {
	entry := d.Delivery
	entry.Headers = kept(d.event.headers, d.event.query)
	if d.hook.KeepPayload {
		entry.Payload = d.body
	}
	return entry
}

func (r *Server) record(ctx context.Context, d *delivered, what seedbed.Decision, detail string) error {
	entry := d.entry()
	entry.Decision, entry.Detail = what, detail
	return r.History.RecordDelivery(ctx, entry)
}

// orUnavailable replaces an answer that could not be recorded.
func orUnavailable(err error) error {
	if err == nil {
		return nil
	}
	return problemOf(err)
}
