package signature

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"seedbed"
)

func TestParsePrivate(t *testing.T) {
	t.Parallel()
	std := base64.StdEncoding.EncodeToString
	seed := bytes.Repeat([]byte{7}, ed25519.SeedSize)
	whole := ed25519.NewKeyFromSeed(seed)
	foreign := append(bytes.Repeat([]byte{8}, ed25519.SeedSize), whole[ed25519.SeedSize:]...)
	for name, test := range map[string]struct {
		text string
		good bool
	}{
		"seed":                      {"whsk_" + std(seed), true},
		"seed and public key":       {"whsk_" + std(whole), true},
		"spaces":                    {" whsk_" + std(seed) + "\n", true},
		"public key of another":     {"whsk_" + std(foreign), false},
		"a secret":                  {"whsec_" + std(seed), false},
		"a public key":              {FormatPublic(seed), false},
		"short":                     {"whsk_" + std(seed[:31]), false},
		"no padding":                {"whsk_" + strings.TrimRight(std(seed), "="), false},
		"nothing":                   {"", false},
		"nothing but what it is of": {"whsk_", false},
	} {
		got, err := ParsePrivate(test.text)
		switch {
		case test.good && (err != nil || !bytes.Equal(got, seed)):
			t.Errorf("%s: %x, %v", name, got, err)
		case !test.good && !errors.Is(err, seedbed.ErrInvalid):
			t.Errorf("%s: %x, %v, want it refused", name, got, err)
		case err != nil && test.text != "" && strings.Contains(err.Error(), std(seed)):
			t.Errorf("%s: the error holds the key: %v", name, err)
		}
	}
	public, err := ParseKey(seedbed.HookSettings{Scheme: seedbed.SchemeStandardV1a}, FormatPublic(seed))
	if err != nil || !bytes.Equal(public, whole.Public().(ed25519.PublicKey)) {
		t.Errorf("public key %x, %v", public, err)
	}
	if a, b := NewSeed(), NewSeed(); len(a) != ed25519.SeedSize || bytes.Equal(a, b) {
		t.Errorf("seeds %x and %x", a, b)
	}
}

func TestEndpointKey(t *testing.T) {
	t.Parallel()
	seed := bytes.Repeat([]byte{7}, ed25519.SeedSize)
	private := "whsk_" + base64.StdEncoding.EncodeToString(seed)
	for name, test := range map[string]struct {
		version, given string
		secret, public string
		good           bool
	}{
		"given secret":          {"v1", FormatSecret(seed), FormatSecret(seed), "", true},
		"given key":             {"v1a", private, "", FormatPublic(seed), true},
		"the key of the other":  {"v1", private, "", "", false},
		"the other of that key": {"v1a", FormatSecret(seed), "", "", false},
		"another version":       {"v2", "", "", "", false},
	} {
		key, secret, err := EndpointKey(test.version, test.given)
		if test.good != (err == nil) || err != nil && (!errors.Is(err, seedbed.ErrInvalid) || strings.Contains(err.Error(), private[5:])) ||
			err == nil && (secret != test.secret || key.Public != test.public || key.Version != test.version || !bytes.Equal(key.Key, seed)) {
			t.Errorf("%s: %+v, %q, %v", name, key, secret, err)
		}
	}
	for _, version := range seedbed.SignVersions() {
		one, secret, err := EndpointKey(version, "")
		two, _, _ := EndpointKey(version, "")
		if err != nil || bytes.Equal(one.Key, two.Key) || (secret == "") != (version == seedbed.SignV1a) ||
			(one.Public == "") != (version == seedbed.SignV1) {
			t.Errorf("%s: %+v, %q, %v", version, one, secret, err)
		}
	}
}
