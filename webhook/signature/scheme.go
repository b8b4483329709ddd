package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"seedbed"
	"seedbed/internal/header"
)

// Scheme is one way in which senders prove who they are. It keeps no state.
type Scheme interface {
	// Read parses what the headers claim. An error means that the request is malformed, and does
	// not quote it.
	Read(f header.Fields) (Claim, error)
	// proves reports whether key made one of the claim's proofs over body. It checks all of them,
	// in a time that does not reveal which is wrong.
	proves(key []byte, c Claim, body []byte) bool
	// Identify names the event of a delivery that was verified, the same on every retry.
	Identify(c Claim, body []byte) (string, error)
	// key parses the text form of a secret. The error is ErrInvalid and never contains the secret.
	key(text string) ([]byte, error)
}

// Claim is what the headers of one delivery state, before it is verified.
type Claim struct {
	// id is the sender's name for the event; empty if the headers have none.
	id string
	// at is when it was signed; zero if the scheme has no time.
	at time.Time
	// lead is what is signed before the body.
	lead string
	// proofs are the raw MACs, signatures or token digests.
	proofs [][]byte
}

// ID returns the sender's name for the event in the headers; empty if they have none.
func (c Claim) ID() string { return c.id }

// Of returns the scheme of a hook; ErrInvalid for an unknown one or an invalid form.
func Of(h seedbed.HookSettings) (Scheme, error) {
	if (h.Form != nil) != (h.Scheme == seedbed.SchemeGeneric) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "form describes the scheme %s,: set both or neither", seedbed.SchemeGeneric)
	}
	switch h.Scheme {
	case seedbed.SchemeStandard:
		return standard{}, nil
	case seedbed.SchemeStandardV1a:
		return standardV1a{}, nil
	case seedbed.SchemeGitHub:
		return github{}, nil
	case seedbed.SchemeGitLab:
		return gitlab{}, nil
	case seedbed.SchemeGitLabSigned:
		return standard{}, nil // GitLab's signing token is Standard Webhooks v1
	case seedbed.SchemeStripe:
		return stripe{}, nil
	case seedbed.SchemeSlack:
		return slack{}, nil
	case seedbed.SchemeGeneric:
		return newGeneric(*h.Form)
	case seedbed.SchemeAlertmanager:
		return alertmanager{}, nil
	case seedbed.SchemeNone:
		return unsigned{}, nil
	}
	return nil, seedbed.Errorf(seedbed.ErrInvalid, "scheme %q is unknown: expected one of %v", seedbed.Clip(string(h.Scheme)),
		seedbed.Schemes())
}

// Keyless reports whether a hook of that scheme may have no keys.
func Keyless(s seedbed.Scheme) bool {
	return s == seedbed.SchemeAlertmanager || s == seedbed.SchemeNone
}

// Deciding are the headers that affect what is done with a delivery, whatever its scheme. Each must
// occur at most once. A generic scheme checks its own headers when it reads them.
var Deciding = []string{
	HeaderID, HeaderTimestamp, HeaderSignature,
	"x-hub-signature", "x-hub-signature-256", "x-github-delivery",
	"x-gitlab-token", "x-gitlab-event-uuid", "idempotency-key",
	"stripe-signature", "x-slack-signature", "x-slack-request-timestamp",
	"authorization", "prefer", "x-forwarded-for", "forwarded",
}

// maxID is the maximum length of an event's name, in bytes.
const maxID = 128

// validID reports whether s is 1 to maxID letters, digits, '_' and '-'.
func validID(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !digit(c) && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxID
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// need returns the value of a header that must occur exactly once.
func need(f header.Fields, name string) (string, error) {
	switch n := len(f[name]); {
	case n == 0:
		return "", errors.New("header " + name + " is missing")
	case n > 1:
		return "", errors.New("header " + name + " is given more than once")
	}
	return f.Get(name), nil
}

// needTime reads a header of Unix seconds.
func needTime(f header.Fields, name string) (text string, at time.Time, err error) {
	if text, err = need(f, name); err != nil {
		return "", at, err
	}
	at, err = parseTime(name, text)
	return text, at, err
}

func parseTime(name, text string) (time.Time, error) {
	var seconds int64
	for i := range len(text) {
		if !digit(text[i]) || i == 12 {
			return time.Time{}, errors.New(name + ": expected Unix seconds in 1 to 12 digits")
		}
		seconds = 10*seconds + int64(text[i]-'0')
	}
	if text == "" {
		return time.Time{}, errors.New(name + ": expected Unix seconds in 1 to 12 digits")
	}
	return time.Unix(seconds, 0), nil
}

// needID reads a header that names the event.
func needID(f header.Fields, name string) (string, error) {
	id, err := need(f, name)
	if err == nil && !validID(id) {
		err = errors.New(name + ": expected 1 to 128 letters, digits, '_' or '-'")
	}
	return id, err
}

// ofBody names a delivery by its content if its headers do not name it.
func ofBody(c Claim, body []byte) (string, error) {
	if c.id != "" {
		return c.id, nil
	}
	sum := sha256.Sum256(body)
	return "sha256-" + hex.EncodeToString(sum[:]), nil
}

// equalAny compares want with every proof.
func equalAny(proofs [][]byte, want []byte) bool {
	match := false
	for _, p := range proofs {
		if hmac.Equal(p, want) {
			match = true
		}
	}
	return match
}

// sha256MAC returns the HMAC-SHA256 over lead and body.
func sha256MAC(key []byte, lead string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(lead))
	h.Write(body)
	return h.Sum(nil)
}

// The minimum and maximum length of a secret that is plain text, in bytes.
const (
	minText = 16
	maxText = 256
)

// textKey returns the key of a secret that is used as written.
func textKey(text string) ([]byte, error) {
	if len(text) < minText || len(text) > maxText {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the secret has %d characters: expected %d to %d", len(text), minText, maxText)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "the secret holds a character that is not printable ASCII")
		}
	}
	return []byte(text), nil
}

// Verify checks one delivery against the hook's keys. The error is only for the log: a sender
// learns only that it was refused. Verify compares every key and every proof, and checks the time
// last.
func Verify(h seedbed.Hook, s Scheme, c Claim, body []byte, now time.Time) error {
	match, expired := len(h.Keys) == 0 && Keyless(h.Scheme), false
	for _, k := range h.Keys {
		proves, valid := s.proves(k.Secret, c, body), k.Valid(now)
		match, expired = match || proves && valid, expired || proves && !valid
	}
	switch {
	case !match && expired:
		return errors.New("the key that signed it is not valid at this time")
	case !match:
		return errors.New("no signature matches")
	}
	if c.at.IsZero() {
		return nil
	}
	tolerance := h.Tolerance
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	switch skew := now.Sub(c.at); {
	case skew > tolerance:
		return errors.New("timestamp is too old")
	case skew < -tolerance:
		return errors.New("timestamp is in the future")
	}
	return nil
}
