package signature

import (
	"crypto/sha256"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"

	"seedbed/internal/header"
)

// stripe is Stripe-Signature: t=<unix>,v1=<hex>, in which v1 may occur several times. The key is
// the whole text whsec_…, not what it encodes. https://docs.stripe.com/webhooks#verify-manually
type stripe struct{}

func (stripe) Read(f header.Fields) (Claim, error) {
	text, err := need(f, "stripe-signature")
	if err != nil {
		return Claim{}, err
	}
	entries := strings.SplitN(text, ",", maxSignatures+2)
	if len(entries) > maxSignatures+1 {
		return Claim{}, errors.New("stripe-signature: more than 16 signatures")
	}
	var c Claim
	for _, entry := range entries {
		tag, value, ok := strings.Cut(entry, "=")
		switch {
		case !ok || tag == "" || value == "":
			return c, errors.New("stripe-signature: expected tag=value with commas between them")
		case tag == "t" && c.lead != "":
			return c, errors.New("stripe-signature: t is given more than once")
		case tag == "t":
			if c.at, err = parseTime("stripe-signature: t", value); err != nil {
				return c, err
			}
			c.lead = value + "."
		case tag == "v1":
			mac, err := decodeHex(value, sha256.Size)
			if err != nil {
				return c, errors.New("stripe-signature: a v1 signature is not 64 lower-case hexadecimal digits")
			}
			c.proofs = append(c.proofs, mac)
		}
	}
	if c.lead == "" {
		return c, errors.New("stripe-signature: t is missing")
	}
	return c, nil
}

func (stripe) proves(key []byte, c Claim, body []byte) bool {
	return len(key) >= minText && equalAny(c.proofs, sha256MAC(key, c.lead, body))
}

// Identify returns the event's own id, which the signature covers.
func (stripe) Identify(c Claim, body []byte) (string, error) {
	var event struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &event); err == nil && validID(event.ID) {
		return event.ID, nil
	}
	return ofBody(c, body)
}

func (stripe) key(text string) ([]byte, error) { return textKey(text) }

// slack is X-Slack-Signature, v0: HMAC-SHA256 over v0:<time>:<body>.
// https://docs.slack.dev/authentication/verifying-requests-from-slack
type slack struct{}

func (slack) Read(f header.Fields) (Claim, error) {
	text, at, err := needTime(f, "x-slack-request-timestamp")
	if err != nil {
		return Claim{}, err
	}
	signature, err := need(f, "x-slack-signature")
	if err != nil {
		return Claim{}, err
	}
	encoded, ok := strings.CutPrefix(signature, "v0=")
	mac, err := decodeHex(encoded, sha256.Size)
	if !ok || err != nil {
		return Claim{}, errors.New("x-slack-signature: expected v0= and 64 lower-case hexadecimal digits")
	}
	return Claim{at: at, lead: "v0:" + text + ":", proofs: [][]byte{mac}}, nil
}

func (slack) proves(key []byte, c Claim, body []byte) bool {
	return len(key) >= minText && equalAny(c.proofs, sha256MAC(key, c.lead, body))
}

func (slack) Identify(c Claim, body []byte) (string, error) { return ofBody(c, body) }

func (slack) key(text string) ([]byte, error) { return textKey(text) }
