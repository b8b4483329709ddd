package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
)

// The prefixes of the keys of v1a.
const (
	publicPrefix  = "whpk_"
	privatePrefix = "whsk_"
)

// NewSeed generates the seed of an Ed25519 key, for v1a.
func NewSeed() []byte { return NewSecret()[:ed25519.SeedSize] }

// FormatPublic returns the text form of the public key of a seed: "whpk_" and standard base64.
func FormatPublic(seed []byte) string {
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return publicPrefix + base64.StdEncoding.EncodeToString(public)
}

// ParsePrivate parses the text form of a private key, "whsk_" and the standard base64 of its seed
// or of seed and public key, and returns the seed. Any other text is ErrInvalid; the message never
// contains the key.
func ParsePrivate(text string) (seed []byte, err error) {
	key, err := parsePrivate(text)
	if err != nil {
		return nil, err
	}
	return key.Seed(), nil
}

func parsePrivate(secret string) (ed25519.PrivateKey, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(secret), privatePrefix)
	raw, err := decodeBase64(text)
	switch {
	case !ok || err != nil:
	case len(raw) == ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(raw), nil
	case len(raw) == ed25519.PrivateKeySize:
		// The second half is derived from the first, so it must match.
		if key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]); key.Equal(ed25519.PrivateKey(raw)) {
			return key, nil
		}
		return nil, invalid("the private key does not belong to the public one that is part of it")
	}
	return nil, invalid("the private key is not %q and the standard base64 of %d or %d bytes", privatePrefix,
		ed25519.SeedSize, ed25519.PrivateKeySize)
}
