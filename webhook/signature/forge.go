package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"seedbed/internal/header"
)

// github is X-Hub-Signature-256: HMAC-SHA256 over the body, without a time. A delivery is
// identified by X-GitHub-Delivery, which a redelivery by hand repeats.
// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
type github struct{}

func (github) Read(f header.Fields) (Claim, error) {
	if !f.Has("x-hub-signature-256") && f.Has("x-hub-signature") {
		return Claim{}, errors.New("header x-hub-signature-256 is missing: SHA-1 is not accepted")
	}
	text, err := need(f, "x-hub-signature-256")
	if err != nil {
		return Claim{}, err
	}
	encoded, ok := strings.CutPrefix(text, "sha256=")
	mac, err := decodeHex(encoded, sha256.Size)
	if !ok || err != nil {
		return Claim{}, errors.New("x-hub-signature-256: expected sha256= and 64 lower-case hexadecimal digits")
	}
	id, err := needID(f, "x-github-delivery")
	return Claim{id: id, proofs: [][]byte{mac}}, err
}

func (github) proves(key []byte, c Claim, body []byte) bool {
	return len(key) >= minText && equalAny(c.proofs, sha256MAC(key, "", body))
}

func (github) Identify(c Claim, _ []byte) (string, error) { return c.id, nil }

func (github) key(text string) ([]byte, error) { return textKey(text) }

// gitlab is X-Gitlab-Token: a secret in clear text with a body that is not protected. The hook
// needs TLS, and should have a list of networks.
// https://docs.gitlab.com/user/project/integrations/webhooks/
type gitlab struct{}

func (gitlab) Read(f header.Fields) (Claim, error) {
	token, err := need(f, "x-gitlab-token")
	if err != nil {
		return Claim{}, err
	}
	c := Claim{proofs: [][]byte{digest(token)}}
	for _, name := range []string{"idempotency-key", "x-gitlab-event-uuid"} {
		if f.Has(name) {
			c.id, err = needID(f, name)
			return c, err
		}
	}
	return c, nil
}

func (gitlab) proves(key []byte, c Claim, _ []byte) bool {
	return len(key) >= minText && equalAny(c.proofs, digest(string(key)))
}

func (gitlab) Identify(c Claim, body []byte) (string, error) { return ofBody(c, body) }

func (gitlab) key(text string) ([]byte, error) { return textKey(text) }

// digest makes tokens equally long, so that comparing them does not reveal their length.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// decodeHex accepts only lower-case digits, so that a MAC has one text form.
func decodeHex(s string, size int) ([]byte, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != size || strings.ToLower(s) != s {
		return nil, errors.New("not hexadecimal")
	}
	return raw, nil
}
