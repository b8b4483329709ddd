package metadata

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

const (
	tokenHeader     = "X-aws-ec2-metadata-token"
	ttlHeader       = "X-aws-ec2-metadata-token-ttl-seconds"
	forwardedHeader = "X-Forwarded-For"
)

// framing is what decides about a request in its header lines.
type framing struct {
	token, ttl          []byte // without the blanks around them
	hasToken, forwarded bool
}

// readFraming reads the header lines once. ok is false for a request that two
// readers could take for two different ones: folded lines, a length together
// with a transfer coding, and any header twice that decides something (RFC 9112,
// 5.2 and 6.3).
func readFraming(h *fasthttp.RequestHeader) (f framing, ok bool) {
	var lengths, tokens, ttls, hosts int
	for raw := h.RawHeaders(); len(raw) > 0; {
		line := raw
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			line, raw = raw[:i], raw[i+1:]
		} else {
			raw = nil
		}
		if len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			return framing{}, false
		}
		i := bytes.IndexByte(line, ':')
		if i < 0 {
			i = len(line)
		}
		name := bytes.TrimSpace(line[:i])
		value := func() []byte { return bytes.TrimSpace(line[min(i+1, len(line)):]) }
		switch len(name) {
		case len("Host"):
			if is(name, "Host") {
				hosts++
			}
		case len("Content-Length"):
			if is(name, "Content-Length") {
				lengths++
			}
		case len(forwardedHeader):
			f.forwarded = f.forwarded || is(name, forwardedHeader)
		case len("Transfer-Encoding"):
			if is(name, "Transfer-Encoding") {
				lengths++
			}
		case len(tokenHeader):
			if is(name, tokenHeader) {
				tokens++
				f.token, f.hasToken = value(), true
			}
		case len(ttlHeader):
			if is(name, ttlHeader) {
				ttls++
				f.ttl = value()
			}
		}
	}
	return f, lengths <= 1 && tokens <= 1 && ttls <= 1 && hosts <= 1
}

// is compares a header's name without regard to case.
func is(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// plainHost takes a Host away that the HTTP library does not parse. Clients of
// fe80::a9fe:a9fe put the zone into it ("[fe80::a9fe:a9fe%ens3]": Python's
// http.client), and nothing here depends on it.
func plainHost(h *fasthttp.RequestHeader) (unchanged fasthttp.RequestConfig) {
	if bytes.IndexByte(h.Host(), '%') >= 0 {
		h.SetHost("metadata")
	}
	return unchanged
}
