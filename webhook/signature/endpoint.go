package signature

import (
	"slices"

	"seedbed"
)

// EndpointKey returns a key of an endpoint for version, one of [seedbed.SignVersions]. It parses
// given (whsec_… for v1, whsk_… for v1a) or, if that is empty, makes a new key. The receiver needs
// secret to verify v1, and key.Public to verify v1a; secret is then empty. The error is ErrInvalid
// and never contains given.
func EndpointKey(version, given string) (key seedbed.EndpointKey, secret string, err error) {
	key.Version = version
	switch {
	case !slices.Contains(seedbed.SignVersions(), version):
		return key, "", invalid("version %q is unknown: expected some of %v", seedbed.Clip(version), seedbed.SignVersions())
	case version == seedbed.SignV1a && given == "":
		key.Key = NewSeed()
	case version == seedbed.SignV1a:
		key.Key, err = ParsePrivate(given)
	case given == "":
		key.Key = NewSecret()
	default:
		key.Key, err = ParseSecret(given)
	}
	switch {
	case err != nil:
		return key, "", err
	case version == seedbed.SignV1a:
		key.Public = FormatPublic(key.Key)
	default:
		secret = FormatSecret(key.Key)
	}
	return key, secret, nil
}
