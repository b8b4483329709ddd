package signature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/header"
)

// The headers of Standard Webhooks, in lower case.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// DefaultTolerance is how far a timestamp may be off, either way, if the hook does not set a
// tolerance.
const DefaultTolerance = 5 * time.Minute

const maxSignatures = 16

// Sign returns the value of the webhook-signature header for one attempt at ts, to the second, to
// deliver body under id: "v1," and the base64 of the MAC.
func Sign(key []byte, id string, ts time.Time, body []byte) string {
	return "v1," + base64.StdEncoding.EncodeToString(sha256MAC(key, lead(id, ts), body))
}

// SignV1a is like Sign with a private key: "v1a," and the base64 of the signature.
func SignV1a(key ed25519.PrivateKey, id string, ts time.Time, body []byte) string {
	return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, append([]byte(lead(id, ts)), body...)))
}

func lead(id string, ts time.Time) string {
	return id + "." + strconv.FormatInt(ts.Unix(), 10) + "."
}

// readStandard reads the three headers. Neither id nor timestamp can contain a dot, so the signed
// bytes can be split in only one way.
func readStandard(f header.Fields, version string, size int) (Claim, error) {
	id, err := needID(f, HeaderID)
	if err != nil {
		return Claim{}, err
	}
	text, at, err := needTime(f, HeaderTimestamp)
	if err != nil {
		return Claim{}, err
	}
	signatures, err := need(f, HeaderSignature)
	if err != nil {
		return Claim{}, err
	}
	proofs, err := parseSignatures(signatures, version, size)
	return Claim{id: id, at: at, lead: id + "." + text + ".", proofs: proofs}, err
}

// parseSignatures returns the raw signatures of one version. It ignores entries of other versions.
func parseSignatures(s, version string, size int) ([][]byte, error) {
	entries := strings.SplitN(s, " ", maxSignatures+1)
	if len(entries) > maxSignatures {
		return nil, errors.New(HeaderSignature + ": more than 16 signatures")
	}
	var proofs [][]byte
	for _, entry := range entries {
		v, value, ok := strings.Cut(entry, ",")
		if !ok || v == "" || value == "" {
			return nil, errors.New(HeaderSignature + ": expected version,base64 with one space between signatures")
		}
		if v != version {
			continue
		}
		raw, err := decodeBase64(value)
		if err != nil || len(raw) != size {
			return nil, errors.New(HeaderSignature + ": a " + version + " signature is not the standard base64 of " + strconv.Itoa(size) + " bytes")
		}
		proofs = append(proofs, raw)
	}
	return proofs, nil
}

// standard is Standard Webhooks 1.0.0, v1: HMAC-SHA256.
type standard struct{}

func (standard) Read(f header.Fields) (Claim, error) { return readStandard(f, "v1", sha256.Size) }

func (standard) proves(key []byte, c Claim, body []byte) bool {
	return checkKey(key) == nil && equalAny(c.proofs, sha256MAC(key, c.lead, body))
}

func (standard) Identify(c Claim, _ []byte) (string, error) { return c.id, nil }

func (standard) key(text string) ([]byte, error) { return ParseSecret(text) }

// standardV1a is Standard Webhooks 1.0.0, v1a: Ed25519.
type standardV1a struct{}

func (standardV1a) Read(f header.Fields) (Claim, error) {
	return readStandard(f, "v1a", ed25519.SignatureSize)
}

func (standardV1a) proves(key []byte, c Claim, body []byte) bool {
	if len(key) != ed25519.PublicKeySize {
		return false
	}
	signed := append([]byte(c.lead), body...)
	match := false
	for _, p := range c.proofs {
		if ed25519.Verify(key, signed, p) {
			match = true
		}
	}
	return match
}

func (standardV1a) Identify(c Claim, _ []byte) (string, error) { return c.id, nil }

func (standardV1a) key(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, publicPrefix)
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the public key does not start with %q", publicPrefix)
	}
	key, err := decodeBase64(encoded)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the public key is not the standard base64 of %d bytes after %q",
			ed25519.PublicKeySize, publicPrefix)
	}
	return key, nil
}
