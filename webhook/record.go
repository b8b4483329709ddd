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

// untelling are names that most deliveries have and that tell nothing, which need not
// be looked through each time.
var untelling = map[string]bool{
	"host": true, "content-type": true, "content-length": true, "user-agent": true, "accept": true, "accept-encoding": true, "connection": true,
	"webhook-id": true, "webhook-timestamp": true, "svix-id": true, "svix-timestamp": true, "idempotency-key": true, // it names the delivery
}

// tells tells whether the value of that name, in lower case, may be such a proof.
func tells(name string) bool { return !untelling[name] && sounds(name) }

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
	m := map[string]string{}
	add := func(mark string, from map[string]string) {
		if len(from) == 0 {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if len(m) < maxKept && len(name) <= maxKeptValue && (mark == "" || !tells(strings.ToLower(name))) {
				m[mark+strings.ToValidUTF8(name, "\ufffd")] = clipTo(from[name], maxKeptValue)
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

func clipTo(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
