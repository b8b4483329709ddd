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

// framing holds the header fields that decide how a request is handled.
type framing struct {
	token, ttl          []byte // without surrounding blanks
	hasToken, forwarded bool
}

// readFraming reads the header lines once. ok is false for a request that two readers could
// interpret differently: with folded lines, with a length and a transfer coding, or with one of
// these fields twice (RFC 9112, 5.2 and 6.3).
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

// is reports whether the name of a header is want, regardless of case.
func is(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// plainHost removes a Host that the HTTP library cannot parse. Clients of fe80::a9fe:a9fe put the
// zone into it ("[fe80::a9fe:a9fe%ens3]": Python's http.client). The service does not use the Host.
func plainHost(h *fasthttp.RequestHeader) (unchanged fasthttp.RequestConfig) {
	if bytes.IndexByte(h.Host(), '%') >= 0 {
		h.SetHost("metadata")
	}
	return unchanged
}
