package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"mime"
	"strings"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// receiver is a Server on one listener.
type receiver struct {
	*Server
	gate httpserve.Gate
	base context.Context
}

// accepted is the answer to a webhook that has a job.
type accepted struct {
	Job       seedbed.JobID    `json:"job"`
	State     seedbed.JobState `json:"state"`
	Duplicate bool             `json:"duplicate"`
	URL       string           `json:"url"`
}

func (r *receiver) receive(c *fiber.Ctx) error {
	if !r.gate.Enter() {
		return refuse(fiber.StatusServiceUnavailable, "the server is stopping")
	}
	defer r.gate.Leave()
	log := r.log.With("hook", clip(c.Params("name")), "peer", c.Context().RemoteAddr().String())
	f := httpserve.FieldsOf(c.Context())
	if err := checkContent(f); err != nil {
		return err
	}
	body, err := httpserve.ReadBody(c.Context(), r.maxBody)
	if err != nil {
		return err
	}
	a, err := attemptOf(f)
	if err != nil {
		return refuse(fiber.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(r.base, submitTimeout)
	defer cancel()
	receipt, err := r.process(ctx, log.With("delivery", a.id), c.Params("name"), a, body)
	if err != nil {
		return err
	}
	url := r.apiBase + "/api/v1/jobs/" + string(receipt.Job)
	c.Set(fiber.HeaderLocation, url)
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.Status(fiber.StatusAccepted).JSON(accepted{receipt.Job, receipt.State, receipt.Duplicate, url})
}

// checkContent refuses a body that is not plain JSON of a length that shows.
func checkContent(f httpserve.Fields) error {
	if f.Has("content-encoding") {
		return refuse(fiber.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body as it was signed")
	}
	if kind, _, err := mime.ParseMediaType(f.Get("content-type")); err != nil || kind != "application/json" {
		return refuse(fiber.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	if !f.Has("content-length") && !f.Has("transfer-encoding") {
		return refuse(fiber.StatusLengthRequired, "want Content-Length")
	}
	return nil
}

var errPayload = errors.New("the payload is not valid")

// process verifies, decodes and submits one delivery, and logs how it ended:
// never the body, a signature or a key, but the body's digest.
func (r *receiver) process(ctx context.Context, log *slog.Logger, name string, a attempt, body []byte) (seedbed.Receipt, error) {
	d := seedbed.Delivery{Hook: name, ID: a.id, SHA256: sha256.Sum256(body), Received: r.now().UTC()}
	log = log.With("sha256", hex.EncodeToString(d.SHA256[:]))
	hook, err := r.verified(ctx, log, name, a, body, d)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	req, err := r.allowed(ctx, hook, body)
	if err == nil {
		var receipt seedbed.Receipt
		if receipt, err = r.submit(ctx, req, &d); err == nil {
			log.Info("webhook accepted", "job", receipt.Job, "action", req.Action, "instance", clip(req.Name), "duplicate", receipt.Duplicate)
			return receipt, nil
		}
	}
	answer, ok := errors.AsType[httpserve.Problem](err)
	if !ok {
		answer = problemOf(err)
	}
	if ok || errors.Is(err, seedbed.ErrInvalid) {
		err = errPayload // the sender alone is told more: the text may quote the payload
	}
	log.Warn("webhook not accepted", "status", answer.Status, "err", err)
	return seedbed.Receipt{}, answer
}

// verified finds the hook and checks the attempt against its key. For a hook
// that does not exist the same work is done with a key that nobody has.
func (r *receiver) verified(ctx context.Context, log *slog.Logger, name string, a attempt, body []byte, d seedbed.Delivery) (seedbed.Hook, error) {
	hook, err := r.hooks.Hook(ctx, name)
	unknown := errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrInvalid)
	switch {
	case unknown:
		hook = seedbed.Hook{Name: name, Key: r.dummy}
	case err != nil:
		log.Error("webhook not accepted: its hook cannot be read", "err", err)
		return hook, problemOf(seedbed.ErrUnavailable)
	}
	reason := verify(hook.Key, a, body, d.Received, hook.Tolerance)
	switch {
	case unknown:
		log.Warn("webhook refused", "err", "no such hook")
		return hook, refuse(fiber.StatusNotFound, "there is no such hook")
	case reason != nil:
		log.Warn("webhook refused", "err", reason)
		return hook, httpserve.Problem{Status: fiber.StatusUnauthorized, Kind: "unauthenticated", Detail: "the signature or its timestamp was not accepted"}
	}
	return hook, nil
}

// allowed decodes a verified body and holds it against what the hook may do.
// Removal is held against the profile of the instance that would go.
func (r *receiver) allowed(ctx context.Context, hook seedbed.Hook, body []byte) (seedbed.Request, error) {
	p, err := decode(body)
	if err != nil {
		return seedbed.Request{}, refuse(fiber.StatusBadRequest, err.Error())
	}
	req, err := p.request()
	if err != nil {
		return req, err
	}
	if !allowsAction(hook, req.Action) {
		return req, seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the action %q", clip(req.Action))
	}
	profile := req.Profile
	if req.Action == "remove" && len(hook.Profiles) > 0 {
		instance, err := r.hooks.InstanceByName(ctx, req.Name)
		if errors.Is(err, seedbed.ErrNotFound) {
			return req, nil // a repeated delivery is answered by Submit, anything else refused by it
		}
		if err != nil {
			return req, err
		}
		profile = instance.Profile
	}
	if !allowsProfile(hook, profile) {
		return req, seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the profile %q", clip(profile))
	}
	return req, nil
}

// clip bounds what strangers can write into a log line or get back.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
