package signature

import (
	"strings"

	"seedbed"
)

// ParseKey parses the text form of a secret for its scheme, without surrounding spaces. The error
// is ErrInvalid and never contains the secret.
func ParseKey(h seedbed.HookSettings, text string) ([]byte, error) {
	s, err := Of(h)
	if err != nil {
		return nil, err
	}
	return s.key(strings.TrimSpace(text))
}

// NewKey generates a secret for a scheme. It returns the form that the hook stores and the text
// form. If the sender has to generate the secret, the error is ErrInvalid.
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
