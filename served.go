package seedbed

import (
	"strings"
	"unicode/utf8"
)

// MaxDocument bounds a user-data or vendor-data document whatever the configuration, because the
// guest plane keeps each in memory.
const MaxDocument = 16 * MiB

// The bounds of tags (Amazon's: 50 tags, keys of 128 and values of 256 characters).
const (
	MaxTags     = 50
	maxTagKey   = 128
	maxTagValue = 256
)

// CheckDocument returns ErrInvalid for a document larger than MaxDocument. The message calls it
// what.
func CheckDocument(what string, data []byte) error {
	if len(data) > int(MaxDocument) {
		return Errorf(ErrInvalid, "%s has %d bytes: expected at most %s", what, len(data), MaxDocument)
	}
	return nil
}

// CheckTags returns ErrInvalid for tags that cannot be served at tags/instance. A key is one
// element of a path, so it must not contain a slash or space, or be "." or ".." (EC2 user guide,
// "Access to instance tags in instance metadata"). A value is one line of text.
func CheckTags(tags map[string]string) error {
	if len(tags) > MaxTags {
		return Errorf(ErrInvalid, "there are %d tags: expected at most %d", len(tags), MaxTags)
	}
	for k, v := range tags {
		switch {
		case k == "" || utf8.RuneCountInString(k) > maxTagKey || !utf8.ValidString(k):
			return Errorf(ErrInvalid, "tag %q has no usable key: expected 1 to %d characters", Clip(k), maxTagKey)
		case k == "." || k == ".." || k == "_index" || strings.ContainsAny(k, "/ =") || strings.ContainsFunc(k, isControl):
			return Errorf(ErrInvalid,
				"tag %q has no usable key: expected one without slash, space and equals sign, other than \".\", \"..\" and \"_index\"", Clip(k))
		case utf8.RuneCountInString(v) > maxTagValue || !utf8.ValidString(v) || strings.ContainsFunc(v, isControl):
			return Errorf(ErrInvalid, "tag %s has no usable value: expected one line of at most %d characters", Clip(k), maxTagValue)
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
