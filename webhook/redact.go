package webhook

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"seedbed"
	"seedbed/internal/header"
)

// Limits of the headers and query parameters that the history keeps.
const (
	maxKept      = 64
	maxKeptValue = 512
)

// secretParts are the parts of a name that mark its value as a credential.
var secretParts = []string{"auth", "cookie", "signature", "token", "secret", "passw", "passphrase", "credential",
	"apikey", "hmac", "digest", "jwt"}

// secretWords mark a credential only as whole words of a name.
var secretWords = []string{"key", "sig", "sign", "pwd"}

// common caches the answer for headers that most deliveries have. The key of idempotency-key names
// the delivery, so it is not a credential.
var common = map[string]bool{
	"host": false, "content-type": false, "content-length": false, "user-agent": false, "accept": false,
	"accept-encoding": false, "connection": false,
	"webhook-id": false, "webhook-timestamp": false, "svix-id": false, "svix-timestamp": false, "idempotency-key": false,
	"webhook-signature": true, "svix-signature": true, "x-hub-signature": true, "x-hub-signature-256": true, "authorization": true,
}

// isSecretHeader reports whether the header's value may be a credential. name must be lower case.
func isSecretHeader(name string) bool {
	if known, ok := common[name]; ok {
		return known
	}
	return looksSecret(name)
}

// looksSecret guesses from the name whether its value is a credential.
func looksSecret(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) }) ||
		slices.ContainsFunc(words, func(word string) bool { return slices.Contains(secretWords, word) })
}

// shown returns the headers of a delivery as rules and the history see them: without credentials.
func shown(f header.Fields, h seedbed.Hook) map[string]string {
	m := make(map[string]string, len(f))
	for name, values := range f {
		if isSecretHeader(name) || h.Form != nil && strings.EqualFold(name, h.Form.SignatureHeader) {
			continue
		}
		m[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
	}
	return m
}

// queryOf parses a query string. The first value of a repeated name counts.
func queryOf(text string) map[string]string {
	if text == "" {
		return map[string]string{}
	}
	values, _ := url.ParseQuery(text) // what cannot be read is left out
	m := make(map[string]string, len(values))
	for name, all := range values {
		m[name] = all[0]
	}
	return m
}

// queryMark is the prefix of query parameters among the kept headers. No header name begins with
// it.
const queryMark = "?"

// kept returns what the history keeps of headers, as returned by shown, and query parameters.
func kept(headers, query map[string]string) map[string]string {
	m := make(map[string]string, len(headers)+len(query))
	add := func(mark string, from map[string]string) {
		names := maps.Keys(from)
		if len(m)+len(from) > maxKept { // the first are kept
			names = slices.Values(slices.Sorted(names))
		}
		for name := range names {
			if len(m) < maxKept && len(name) <= maxKeptValue && (mark == "" || !isSecretHeader(strings.ToLower(name))) {
				m[mark+strings.ToValidUTF8(name, "\ufffd")] = seedbed.ClipTo(from[name], maxKeptValue)
			}
		}
	}
	add("", headers)
	add(queryMark, query)
	return m
}

// unkept separates what kept has joined.
func unkept(m map[string]string) (headers, query map[string]string) {
	headers, query = map[string]string{}, map[string]string{}
	for name, v := range m {
		if q, ok := strings.CutPrefix(name, queryMark); ok {
			query[q] = v
		} else {
			headers[name] = v
		}
	}
	return headers, query
}
