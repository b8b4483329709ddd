package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"hash"
	"regexp"
	"strings"

	"seedbed"
	"seedbed/internal/header"
)

var errNoKey = seedbed.Errorf(seedbed.ErrInvalid, "a hook of scheme %s has no keys", seedbed.SchemeNone)

// generic is an HMAC that a form describes: which headers hold the signature, the time and the
// name, and what is signed.
type generic struct {
	seedbed.HookForm
	hash func() hash.Hash
	size int
	// parts are the texts and placeholders of Signed, except the body.
	parts []part
}

// part is a piece of what is signed: a text, or what a placeholder stands for.
type part struct {
	text string
	kind string // "", "timestamp" or "id"
}

const bodyMark = "{body}"

var (
	headerForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	markForm   = regexp.MustCompile(`\{[^{}]*\}`)
	// betweenForm matches text that separates two placeholders whatever their values.
	betweenForm = regexp.MustCompile(`[^A-Za-z0-9_-]`)
)

// newGeneric returns the scheme that a form describes. ErrInvalid says what is wrong with the form.
func newGeneric(f seedbed.HookForm) (Scheme, error) {
	g := &generic{HookForm: f, hash: sha256.New, size: sha256.Size}
	g.SignatureHeader, g.TimestampHeader, g.IDHeader = strings.ToLower(f.SignatureHeader),
		strings.ToLower(f.TimestampHeader), strings.ToLower(f.IDHeader)
	for name, header := range map[string]string{"signature_header": g.SignatureHeader, "timestamp_header": g.TimestampHeader,
		"id_header": g.IDHeader} {
		if header != "" && !headerForm.MatchString(header) {
			return nil, formError("%s %q is not the name of a header", name, seedbed.Clip(header))
		}
	}
	switch {
	case g.SignatureHeader == "":
		return nil, formError("signature_header is missing")
	case len(g.Prefix) > 32 || len(g.Separator) > 2:
		return nil, formError("prefix or separator is too long: expected at most 32 and 2 characters")
	}
	switch g.Algorithm {
	case "", "sha256":
	case "sha512":
		g.hash, g.size = sha512.New, sha512.Size
	default:
		return nil, formError("algorithm %q is unknown: expected sha256 or sha512", seedbed.Clip(g.Algorithm))
	}
	switch g.Encoding {
	case "", "hex", "base64":
	default:
		return nil, formError("encoding %q is unknown: expected hex or base64", seedbed.Clip(g.Encoding))
	}
	if g.Signed == "" {
		g.Signed = bodyMark
		if g.TimestampHeader != "" {
			g.Signed = "{timestamp}." + bodyMark
		}
	}
	return g, g.split()
}

func formError(format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "form: "+format, args...)
}

// split parses Signed, and refuses one whose bytes could be split in two ways.
func (g *generic) split() error {
	before, ok := strings.CutSuffix(g.Signed, bodyMark)
	if !ok || strings.Contains(before, bodyMark) || len(g.Signed) > 256 {
		return formError("signed %q: expected text with {timestamp} and {id}, and {body} at its end", seedbed.Clip(g.Signed))
	}
	seen := map[string]bool{}
	last := 0
	for _, at := range markForm.FindAllStringIndex(before, -1) {
		kind := before[at[0]+1 : at[1]-1]
		header := map[string]string{"timestamp": g.TimestampHeader, "id": g.IDHeader}[kind]
		between := before[last:at[0]]
		switch {
		case kind != "timestamp" && kind != "id" || seen[kind]:
			return formError("signed: {%s} is unknown or is given twice: expected {timestamp}, {id} and {body}", seedbed.Clip(kind))
		case header == "":
			return formError("signed has {%s}, but %s_header is not set", kind, kind)
		case len(g.parts) > 0 && last > 0 && !betweenForm.MatchString(between):
			return formError("signed: expected a character other than a letter, a digit, '_' or '-' before {%s}, so that it cannot be moved", kind)
		}
		seen[kind] = true
		g.parts = append(g.parts, part{text: between}, part{kind: kind})
		last = at[1]
	}
	rest := before[last:]
	if len(seen) > 0 && !betweenForm.MatchString(rest) {
		return formError("signed: expected a character other than a letter, a digit, '_' or '-' before {body}, so that it cannot be moved")
	}
	g.parts = append(g.parts, part{text: rest})
	if g.TimestampHeader != "" && !seen["timestamp"] {
		return formError("timestamp_header is set, but signed has no {timestamp}: a time that is not signed proves nothing")
	}
	return nil
}

func (g *generic) Read(f header.Fields) (c Claim, err error) {
	text := ""
	if g.TimestampHeader != "" {
		if text, c.at, err = needTime(f, g.TimestampHeader); err != nil {
			return c, err
		}
	}
	if g.IDHeader != "" {
		if c.id, err = needID(f, g.IDHeader); err != nil {
			return c, err
		}
	}
	for _, p := range g.parts {
		switch p.kind {
		case "timestamp":
			c.lead += text
		case "id":
			c.lead += c.id
		default:
			c.lead += p.text
		}
	}
	signature, err := need(f, g.SignatureHeader)
	if err != nil {
		return c, err
	}
	c.proofs, err = g.signatures(signature)
	return c, err
}

func (g *generic) signatures(text string) ([][]byte, error) {
	entries := []string{text}
	if g.Separator != "" {
		entries = strings.SplitN(text, g.Separator, maxSignatures+1)
	}
	if len(entries) > maxSignatures {
		return nil, errors.New(g.SignatureHeader + ": more than 16 signatures")
	}
	var proofs [][]byte
	for _, entry := range entries {
		encoded, ok := strings.CutPrefix(entry, g.Prefix)
		if !ok && g.Separator != "" {
			continue // of another kind
		}
		var raw []byte
		var err error
		if g.Encoding == "base64" {
			raw, err = decodeBase64(encoded)
		} else {
			raw, err = decodeHex(encoded, g.size)
		}
		if !ok || err != nil || len(raw) != g.size {
			return nil, errors.New(g.SignatureHeader + ": it does not have the form that the hook describes")
		}
		proofs = append(proofs, raw)
	}
	return proofs, nil
}

func (g *generic) proves(key []byte, c Claim, body []byte) bool {
	h := hmac.New(g.hash, key)
	h.Write([]byte(c.lead))
	h.Write(body)
	return len(key) >= minText && equalAny(c.proofs, h.Sum(nil))
}

func (g *generic) Identify(c Claim, body []byte) (string, error) { return ofBody(c, body) }

func (g *generic) key(text string) ([]byte, error) { return textKey(text) }
