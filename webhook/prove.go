package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/internal/header"
	"seedbed/internal/httpserve"
	"seedbed/webhook/signature"

	"github.com/gofiber/fiber/v2"
)

// unproven answers every delivery of which the sender is not proven, so that it does not tell which hooks there are.
// The log, and the counts of rejections, say why.
var unproven = httpserve.Problem{Status: fiber.StatusUnauthorized, Kind: "unauthenticated",
	Detail: "the delivery was not accepted: there is no such hook, or the signature, time stamp, certificate, address or " +
		"transport is wrong; the receiver's log says which"}

// prove reads the request and checks that the hook accepts its sender. What a hook is like is only told to
// senders that are proven.
func (r *receiver) prove(ctx context.Context, c *fiber.Ctx, d *delivered, f header.Fields, from peer) error {
	if err := d.acceptable(f); err != nil {
		return err
	}
	err := seedbed.CheckQualified("hook", seedbed.ProjectOf(d.Hook), d.Hook)
	if err == nil {
		d.hook, err = r.Hooks.Hook(ctx, d.Hook)
	}
	switch {
	case errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrInvalid):
		return r.unknown(c, d)
	case err != nil:
		d.log().Error("webhook not accepted: its hook cannot be read", "err", err)
		return problemOf(seedbed.ErrUnavailable)
	}
	if err := r.readBody(c, d, from); err != nil {
		return err
	}
	s, err := signature.Of(d.hook.HookSettings)
	if err != nil { // it was checked when it was saved
		d.log().Error("webhook not accepted: its hook is unusable", "err", err)
		return problemOf(seedbed.ErrUnavailable)
	}
	claimed, malformed := s.Read(f)
	reason := r.verify(ctx, d, s, claimed)
	switch {
	case !from.admits(d.hook):
		reason = errors.New("the hook does not accept requests from there")
	case insecureTransport(c.Context(), d.hook, r.TrustedProxies):
		reason = errors.New("its secret came unencrypted")
	case malformed != nil:
		reason = malformed
	case reason == nil && len(d.hook.Subjects) > 0 && !holds(c.Context().TLSConnectionState(), d.hook.Subjects):
		reason = errors.New("no certificate of a name that the hook lists")
	case reason == nil && d.hook.Scheme == seedbed.SchemeNone && len(d.hook.Subjects) == 0 && !from.local():
		reason = errors.New("a hook without authentication accepts deliveries only from this host")
	}
	if reason != nil {
		r.reject(d, reason.Error(), "delivery", claimed.ID())
		return unproven
	}
	if err := d.fits(f); err != nil {
		return err
	}
	d.SHA256 = sha256.Sum256(d.body)
	if d.ID, err = s.Identify(claimed, d.body); err != nil {
		d.log().Warn("webhook refused", "err", errPayload)
		return refuse(fiber.StatusBadRequest, err.Error())
	}
	return nil
}

// unknown answers a delivery for a hook that does not exist. It does the work of a delivery whose
// signature is wrong, with a random key, so that neither the answer nor the time taken reveals which hooks exist.
// It keeps nothing of the body, which anyone can send.
func (r *receiver) unknown(c *fiber.Ctx, d *delivered) error {
	mac := hmac.New(sha256.New, r.dummyKey)
	if err := httpserve.DiscardBody(c.Context(), r.maxBody, mac); err != nil {
		return err
	}
	mac.Sum(nil)
	d.log().Warn("webhook refused", "err", "no such hook")
	return unproven
}

// acceptable refuses a body of a kind that no hook accepts, and one without a length.
func (d *delivered) acceptable(f header.Fields) error {
	if f.Has("content-encoding") {
		return refuse(fiber.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body as it was signed")
	}
	d.kind = kindOf(f.Get("content-type"))
	switch {
	case d.kind == "":
		return refuse(fiber.StatusUnsupportedMediaType,
			"expected Content-Type: application/json, another that ends in +json, or application/x-www-form-urlencoded")
	case !f.Has("content-length") && !f.Has("transfer-encoding"):
		return refuse(fiber.StatusLengthRequired, "expected Content-Length")
	}
	return nil
}

// fits refuses a body of a kind or a size that the hook does not accept.
func (d *delivered) fits(f header.Fields) error {
	if d.hook.Mapping == "" && (d.kind != kindJSON || !strings.HasPrefix(f.Get("content-type"), fiber.MIMEApplicationJSON)) {
		return refuse(fiber.StatusUnsupportedMediaType, "expected Content-Type: application/json")
	}
	if most := d.hook.MaxBody; most > 0 && seedbed.Bytes(len(d.body)) > most {
		return refuse(fiber.StatusRequestEntityTooLarge, fmt.Sprintf("the body has %d bytes: expected at most %s", len(d.body), most))
	}
	return nil
}

// readBody reads the raw bytes of a body.
func (r *receiver) readBody(c *fiber.Ctx, d *delivered, from peer) (err error) {
	d.body, d.drop, err = r.bodies.Read(c.Context(), httpserve.PeerOf(from.addr, r.TrustedProxies), r.maxBody)
	switch {
	case errors.Is(err, httpserve.ErrShare):
		d.log().Warn("webhook throttled", "err", err)
		return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unavailable",
			Detail: "too much is being received from this address: send fewer deliveries at a time"}
	case errors.Is(err, httpserve.ErrNoRoom):
		d.log().Warn("webhook throttled", "err", "there is no memory left for its body")
		return problemOf(seedbed.ErrUnavailable)
	}
	return err
}
