package seedbed

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Person is someone who has signed in at the provider of OpenID Connect.
type Person struct {
	// Issuer is the provider's URL. Subject is the provider's own, lasting word for the person: the two
	// together identify the person.
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// Name is what people call the person, such as a user name or an address.
	Name string `json:"name"`
	// Groups are those that the provider named when the person signed in.
	Groups []string `json:"groups"`
}

// The bounds of what a provider says of a person.
const (
	// maxPersonName bounds the bytes of a name, a subject or the name of a group.
	maxPersonName = 255
	// maxGroups bounds the groups of a person.
	maxGroups = 1000
)

// Check returns ErrInvalid if the person has no name, subject or issuer, or one that cannot be used.
func (p Person) Check() error {
	if err := CheckPersonName(p.Name); err != nil {
		return err
	}
	for what, value := range map[string]string{"subject": p.Subject, "issuer": p.Issuer} {
		if value == "" || len(value) > maxPersonName || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return Errorf(ErrInvalid, "the %s %q of a person cannot be used: expected 1 to %d bytes that can be printed",
				what, Clip(value), maxPersonName)
		}
	}
	if len(p.Groups) > maxGroups {
		return Errorf(ErrInvalid, "%s has %d groups: expected at most %d", p.Name, len(p.Groups), maxGroups)
	}
	for _, g := range p.Groups {
		if len(g) > maxPersonName || !utf8.ValidString(g) {
			return Errorf(ErrInvalid, "group %q of %s cannot be used: expected at most %d bytes of UTF-8", Clip(g), p.Name, maxPersonName)
		}
	}
	return nil
}

// CheckPersonName returns ErrInvalid unless name can be that of a person. It has no space and no
// parenthesis, so that it cannot pass for another actor of the audit log.
func CheckPersonName(name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError || strings.ContainsRune(" ()", r) }
	if name == "" || len(name) > maxPersonName || strings.ContainsFunc(name, odd) {
		return Errorf(ErrInvalid, "the name %q of a person cannot be used: expected 1 to %d bytes that can be printed, "+
			"without spaces and parentheses", Clip(name), maxPersonName)
	}
	return nil
}

// Actor returns the person as the audit log names it: the name, which another person may have had
// before, and eight digits that only depend on issuer and subject.
func (p Person) Actor() string {
	sum := sha256.Sum256([]byte(p.Issuer + "\x00" + p.Subject))
	return "person " + p.Name + " (" + hex.EncodeToString(sum[:4]) + ")"
}

// Same reports whether p and other are the same person at the provider.
func (p Person) Same(other Person) bool {
	return p.Issuer == other.Issuer && p.Subject == other.Subject
}

// Session lets a person who has signed in use the API until it expires. Only the SHA-256 of its secret
// is kept.
type Session struct {
	// ID names it in lists. It is not a secret.
	ID string `json:"id"`
	Person
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Used is when it was last used, to the minute; zero means never.
	Used time.Time `json:"used,omitzero"`
	// From is the address of the peer that began it.
	From string `json:"from"`
}

// Expired reports whether the session has expired at now.
func (s Session) Expired(now time.Time) bool { return !now.Before(s.Expires) }

// NoSession returns the error for a session that does not exist, ErrNotFound.
func NoSession(id string) error {
	return Errorf(ErrNotFound, "session %q does not exist", Clip(id))
}

// CheckSessionID returns ErrInvalid unless id can be that of a session: sixteen hexadecimal digits.
func CheckSessionID(id string) error {
	if len(id) != 16 || strings.Trim(id, "0123456789abcdef") != "" {
		return Errorf(ErrInvalid, "%q is not the ID of a session: expected 16 hexadecimal digits", Clip(id))
	}
	return nil
}

// PersonGrant gives persons a role in a project: those of a group, or those of a name.
type PersonGrant struct {
	Group   string `yaml:"group"`
	User    string `yaml:"user"`
	Project string `yaml:"project"`
	Role    Role   `yaml:"role"`
}

// Applies reports whether the grant is one of the person.
func (g PersonGrant) Applies(p Person) bool {
	return g.User != "" && g.User == p.Name || g.Group != "" && slices.Contains(p.Groups, g.Group)
}
