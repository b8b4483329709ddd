package signature

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"time"

	"seedbed"
)

// Headers returns the headers with which a sender of the hook's scheme proves who it is, for one
// attempt at ts to deliver body under id. secret is in text form; for the scheme standard-v1a it is
// the private key, whsk_….
func Headers(h seedbed.HookSettings, secret, id string, ts time.Time, body []byte) (map[string]string, error) {
	at := strconv.FormatInt(ts.Unix(), 10)
	if h.Scheme == seedbed.SchemeStandardV1a {
		key, err := parsePrivate(secret)
		if err != nil {
			return nil, err
		}
		return map[string]string{HeaderID: id, HeaderTimestamp: at, HeaderSignature: SignV1a(key, id, ts, body)}, nil
	}
	if h.Scheme == seedbed.SchemeNone {
		return map[string]string{HeaderID: id}, nil
	}
	key, err := ParseKey(h, secret)
	if err != nil {
		return nil, err
	}
	mac := func(lead string) string { return hex.EncodeToString(sha256MAC(key, lead, body)) }
	switch h.Scheme {
	case seedbed.SchemeGitHub:
		return map[string]string{"x-hub-signature-256": "sha256=" + mac(""), "x-github-delivery": id}, nil
	case seedbed.SchemeGitLab:
		return map[string]string{"x-gitlab-token": string(key), "idempotency-key": id}, nil
	case seedbed.SchemeStripe:
		return map[string]string{"stripe-signature": "t=" + at + ",v1=" + mac(at+".")}, nil
	case seedbed.SchemeSlack:
		return map[string]string{"x-slack-request-timestamp": at, "x-slack-signature": "v0=" + mac("v0:"+at+":")}, nil
	case seedbed.SchemeAlertmanager:
		return map[string]string{"authorization": "Bearer " + string(key)}, nil
	case seedbed.SchemeGeneric:
		return genericHeaders(*h.Form, key, id, at, body)
	}
	return map[string]string{HeaderID: id, HeaderTimestamp: at, HeaderSignature: Sign(key, id, ts, body)}, nil
}

func genericHeaders(form seedbed.HookForm, key []byte, id, at string, body []byte) (map[string]string, error) {
	s, err := newGeneric(form)
	if err != nil {
		return nil, err
	}
	g := s.(*generic)
	m := hmac.New(g.hash, key)
	for _, p := range g.parts {
		m.Write([]byte(map[string]string{"timestamp": at, "id": id, "": p.text}[p.kind]))
	}
	m.Write(body)
	signature := hex.EncodeToString(m.Sum(nil))
	if g.Encoding == "base64" {
		signature = base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	headers := map[string]string{g.SignatureHeader: g.Prefix + signature}
	if g.TimestampHeader != "" {
		headers[g.TimestampHeader] = at
	}
	if g.IDHeader != "" {
		headers[g.IDHeader] = id
	}
	return headers, nil
}
