package signature

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"seedbed"
)

// The length of a decoded HMAC key, in bytes, as the specification has it.
const (
	MinKey = 24
	MaxKey = 64
)

const secretPrefix = "whsec_"

// NewSecret generates a random HMAC key of 32 bytes.
func NewSecret() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails (crypto/rand)
	return key
}

// FormatSecret returns the text form of key: "whsec_" and standard base64.
func FormatSecret(key []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParseSecret is the inverse of FormatSecret. It returns ErrInvalid for anything except the prefix
// and strict base64 of MinKey to MaxKey bytes. The message never contains the secret.
func ParseSecret(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, secretPrefix)
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the secret does not start with %q", secretPrefix)
	}
	key, err := decodeBase64(text)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the secret is not standard base64 after %q", secretPrefix)
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return key, nil
}

func checkKey(key []byte) error {
	if len(key) < MinKey || len(key) > MaxKey {
		return seedbed.Errorf(seedbed.ErrInvalid, "the secret has %d bytes: expected %d to %d", len(key), MinKey, MaxKey)
	}
	return nil
}

// decodeBase64 accepts only the padded standard alphabet: the strict decoder of the standard
// library still skips line breaks, so that two texts could have the same meaning.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, base64.CorruptInputError(strings.IndexAny(s, "\r\n"))
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}
