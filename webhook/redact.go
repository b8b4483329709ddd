package webhook

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"seedbed"
	"seedbed/internal/httpserve"
)

// The bounds of what is kept of headers and query.
const (
	maxKept      = 64
	maxKeptValue = 512
)

// telling are parts of names whose values may prove who sent something.
var telling = []string{"auth", "cookie", "signature", "token", "secret", "passw", "passphrase", "credential", "apikey", "hmac", "digest", "jwt"}

// tellingWords are those that count as words of a name alone.
var tellingWords = []string{"key", "sig", "sign", "pwd"}

// common are names that most deliveries have, which need not be looked through each
// time, and whether they tell. The key of idempotency-key names the delivery.
var common = map[string]bool{
	"host": false, "content-type": false, "content-length": false, "user-agent": false, "accept": false, "accept-encoding": false, "connection": false,
	"webhook-id": false, "webhook-timestamp": false, "svix-id": false, "svix-timestamp": false, "idempotency-key": false,
	"webhook-signature": true, "svix-signature": true, "x-hub-signature": true, "x-hub-signature-256": true, "authorization": true,
}

// tells tells whether the value of that name, in lower case, may be such a proof.
func tells(name string) bool {
	if known, ok := common[name]; ok {
		return known
	}
	return sounds(name)
}

// sounds tells it by the name alone.
func sounds(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return slices.ContainsFunc(telling, func(part string) bool { return strings.Contains(name, part) }) ||
		slices.ContainsFunc(words, func(word string) bool { return slices.Contains(tellingWords, word) })
}

// shown are the headers of a delivery as rules and the history see them:
// without what may prove who sent it.
func shown(f httpserve.Fields, h seedbed.Hook) map[string]string {
	m := make(map[string]string, len(f))
	for name, values := range f {
		if tells(name) || h.Form != nil && strings.EqualFold(name, h.Form.SignatureHeader) {
			continue
		}
		m[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
	}
	return m
}

// queryOf reads the query; a name that comes twice counts the first time.
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

// queryMark is before the name of what the query had, among the headers that
// are kept: no header begins with it.
const queryMark = "?"

// kept bounds what goes into the history. The headers are shown ones.
func kept(headers, query map[string]string) map[string]string {
	m := make(map[string]string, len(headers)+len(query))
	add := func(mark string, from map[string]string) {
		names := maps.Keys(from)
		if len(m)+len(from) > maxKept { // the first are kept
			names = slices.Values(slices.Sorted(names))
		}
		for name := range names {
			if len(m) < maxKept && len(name) <= maxKeptValue && (mark == "" || !tells(strings.ToLower(name))) {
				m[mark+strings.ToValidUTF8(name, "\ufffd")] = seedbed.ClipTo(from[name], maxKeptValue)
			}
		}
	}
	add("", headers)
	add(queryMark, query)
	return m
}

// unkept takes apart what kept has put together.
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
