package metadata

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"
)

const (
	tokenHeader     = "X-aws-ec2-metadata-token"
	ttlHeader       = "X-aws-ec2-metadata-token-ttl-seconds"
	forwardedHeader = "X-Forwarded-For"
)

// clearlyFramed refuses a request that two readers could take for two
// different ones: folded header lines, a length together with a transfer
// coding, and any header twice that decides something (RFC 9112, 5.2 and 6.3).
func clearlyFramed(h *fasthttp.RequestHeader) bool {
	var lengths, codings, tokens, ttls, hosts int
	for line := range bytes.SplitSeq(h.RawHeaders(), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			return false
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		switch s := string(bytes.TrimSpace(name)); {
		case strings.EqualFold(s, "Content-Length"):
			lengths++
		case strings.EqualFold(s, "Transfer-Encoding"):
			codings++
		case strings.EqualFold(s, tokenHeader):
			tokens++
		case strings.EqualFold(s, ttlHeader):
			ttls++
		case strings.EqualFold(s, "Host"):
			hosts++
		}
	}
	return lengths+codings <= 1 && tokens <= 1 && ttls <= 1 && hosts <= 1
}

// peek is the value of a header without the blanks around it, and whether it was sent at all.
func peek(h *fasthttp.RequestHeader, name string) (value []byte, sent bool) {
	for _, v := range h.PeekAll(name) {
		return bytes.TrimSpace(v), true
	}
	return nil, false
}
