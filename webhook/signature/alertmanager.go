package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"seedbed/internal/header"
)

// alertmanager is Prometheus Alertmanager's webhook, which is not signed: the sender holds a bearer
// token (http_config.authorization) or a certificate (http_config.tls_config), which the hook's
// subjects name. https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
type alertmanager struct{}

func (alertmanager) Read(f header.Fields) (Claim, error) {
	if !f.Has("authorization") {
		return Claim{}, nil // with a key this does not prove anything; without one the certificate does
	}
	text, err := need(f, "authorization")
	if err != nil {
		return Claim{}, err
	}
	kind, token, ok := strings.Cut(text, " ")
	if !ok || !strings.EqualFold(kind, "Bearer") || token == "" {
		return Claim{}, errors.New("authorization: expected Bearer and the token")
	}
	return Claim{proofs: [][]byte{digest(token)}}, nil
}

func (alertmanager) proves(key []byte, c Claim, _ []byte) bool {
	return len(key) >= minText && equalAny(c.proofs, digest(string(key)))
}

// Identify names a notification by its content: the group, and each alert with its status and
// start. Alertmanager repeats a notification if the answer is slow.
func (alertmanager) Identify(_ Claim, body []byte) (string, error) {
	var n struct {
		Version  string `json:"version"`
		GroupKey string `json:"groupKey"`
		Alerts   []struct {
			Status      string `json:"status"`
			Fingerprint string `json:"fingerprint"`
			StartsAt    string `json:"startsAt"`
		} `json:"alerts"`
	}
	if err := json.Unmarshal(body, &n); err != nil || n.Version != "4" || n.GroupKey == "" {
		return "", errors.New(`the body is not an Alertmanager notification: it must have version "4" and a groupKey`)
	}
	lines := make([]string, len(n.Alerts))
	for i, a := range n.Alerts {
		lines[i] = fmt.Sprintf("%q %q %q", a.Fingerprint, a.StartsAt, a.Status)
	}
	slices.Sort(lines)
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%s", n.GroupKey, strings.Join(lines, "\n"))
	return "alerts-" + hex.EncodeToString(h.Sum(nil)), nil
}

func (alertmanager) key(text string) ([]byte, error) { return textKey(text) }

// unsigned is the scheme without proof. The sender's address or certificate decides whether it may
// send.
type unsigned struct{}

func (unsigned) Read(f header.Fields) (Claim, error) {
	for _, name := range []string{HeaderID, "idempotency-key"} {
		if f.Has(name) {
			id, err := needID(f, name)
			return Claim{id: id}, err
		}
	}
	return Claim{}, nil
}

func (unsigned) proves([]byte, Claim, []byte) bool { return false }

func (unsigned) Identify(c Claim, body []byte) (string, error) { return ofBody(c, body) }

func (unsigned) key(string) ([]byte, error) {
	return nil, errNoKey
}
