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

// NewSeed draws the seed of an Ed25519 key, for v1a.
func NewSeed() []byte { return NewSecret()[:ed25519.SeedSize] }

// FormatPublic is what verifies that a seed signed, as people copy it: "whpk_"
// and standard base64.
func FormatPublic(seed []byte) string {
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return publicPrefix + base64.StdEncoding.EncodeToString(public)
}

// ParsePrivate reads a private key as people copy it, "whsk_" and the standard
// base64 of its seed or of seed and public key, and gives the seed. It gives
// ErrInvalid for anything else; the message never holds the key.
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
		// The second half follows from the first, and is not believed.
		if key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]); key.Equal(ed25519.PrivateKey(raw)) {
			return key, nil
		}
		return nil, invalid("the private key does not belong to the public one that is part of it")
	}
	return nil, invalid("the private key is not %q and the standard base64 of %d or %d bytes", privatePrefix,
		ed25519.SeedSize, ed25519.PrivateKeySize)
}
