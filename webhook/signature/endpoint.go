package signature

import (
	"slices"

	"seedbed"
)

// EndpointKey is a key of an endpoint that signs by a version, one of
// [seedbed.SignVersions]: the one that is given as people copy it (whsec_… for v1,
// whsk_… for v1a), or else a new one. The receiver needs secret to verify v1, and
// key.Public to verify v1a; then secret is empty. The error is ErrInvalid and
// never holds what was given.
func EndpointKey(version, given string) (key seedbed.EndpointKey, secret string, err error) {
	key.Version = version
	switch {
	case !slices.Contains(seedbed.SignVersions(), version):
		return key, "", invalid("version %q is unknown: want some of %v", seedbed.Clip(version), seedbed.SignVersions())
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
