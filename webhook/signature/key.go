package signature

import (
	"strings"

	"seedbed"
)

// ParseKey reads a secret as its scheme has it and people copy it; spaces
// around it are not part of it. The error is ErrInvalid and never holds it.
func ParseKey(h seedbed.HookSettings, text string) ([]byte, error) {
	s, err := Of(h)
	if err != nil {
		return nil, err
	}
	return s.key(strings.TrimSpace(text))
}

// NewKey draws a secret for a scheme, as the hook keeps it and as people copy
// it. Where the sender draws it, the error is ErrInvalid and says so.
func NewKey(h seedbed.HookSettings) (key []byte, text string, err error) {
	switch h.Scheme {
	case seedbed.SchemeStripe, seedbed.SchemeSlack:
		return nil, "", invalid("the secret of a %s hook is drawn by the sender: give it", h.Scheme)
	case seedbed.SchemeStandardV1a:
		return nil, "", invalid("the key of a %s hook is the sender's public one, whpk_…: give it", h.Scheme)
	case seedbed.SchemeNone:
		return nil, "", errNoKey
	}
	key = NewSecret()
	text = FormatSecret(key)
	if h.Scheme != seedbed.SchemeStandard && h.Scheme != seedbed.SchemeGitLabSigned {
		text = strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimPrefix(text, secretPrefix)), "=")
		key = []byte(text)
	}
	return key, text, nil
}

func invalid(format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrInvalid, format, args...)
}
