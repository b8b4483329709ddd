package server

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/signin"

	"github.com/gofiber/fiber/v2"
)

// SignIn is how people sign in.
type SignIn struct {
	// Provider is where they do.
	Provider Provider
	// Redirect is the URL to which the provider sends browsers back: SignInPath and "/callback", as
	// browsers reach it.
	Redirect string
	// Length is how long a session lasts.
	Length time.Duration
	// Grants say who may do what. Of those for one project, the first that applies to a person counts.
	Grants []seedbed.PersonGrant
	// Key seals the cookies. All control hosts have the same.
	Key []byte
}

// Provider is a provider of OpenID Connect; see [signin.Provider].
type Provider interface {
	Issuer() string
	URL(ctx context.Context, f signin.Flow) (string, error)
	Person(ctx context.Context, f signin.Flow, a signin.Answer) (seedbed.Person, error)
}

// SignInPath is the path, below Prefix, at which a sign-in begins.
const SignInPath = "/signin"

// URL returns where a browser begins to sign in.
func (s *SignIn) URL() string { return strings.TrimSuffix(s.Redirect, "/callback") }

// GrantsOf returns what a person may do now. It is empty for a person of another provider.
func (s *SignIn) GrantsOf(p seedbed.Person) []seedbed.Grant {
	if p.Issuer != s.Provider.Issuer() {
		return nil
	}
	var all []seedbed.Grant
	for _, g := range s.Grants {
		if _, there := seedbed.GrantIn(all, g.Project); !there && g.Applies(p) {
			all = append(all, seedbed.Grant{Project: g.Project, Role: g.Role})
		}
	}
	return all
}

// sealing returns what seals texts of one use with a key of 32 bytes.
func sealing(key []byte, use string) cipher.AEAD {
	derived, err := hkdf.Key(sha256.New, key, nil, "seedbed: "+use, sha256.Size)
	if err != nil {
		panic(err) // only for a key that is too long
	}
	return newAEAD(derived)
}

// Seal returns v, sealed for one use, as text of a URL.
func (s *SignIn) Seal(use string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealing(s.Key, use).Seal(nil, nil, plain, []byte(use))), nil
}

// Open reads into v what Seal returned. It reports whether that was for the same use.
func (s *SignIn) Open(use, text string, v any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := sealing(s.Key, use).Open(nil, nil, sealed, []byte(use))
	return err == nil && json.Unmarshal(plain, v) == nil
}

// sessionPrefix identifies the secret of a session to operators, and to scanners for leaked secrets.
const sessionPrefix = "sbs_"

// BeginSession begins a session of a person who has signed in, and returns it with its secret. It returns
// ErrForbidden if the person may do nothing here.
func (r *Router) BeginSession(ctx context.Context, c *fiber.Ctx, p seedbed.Person) (s seedbed.Session, secret string, err error) {
	grants := r.SignIn.GrantsOf(p)
	if len(grants) == 0 {
		return s, "", NoGrant(p)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	secret = sessionPrefix + hex.EncodeToString(random[:])
	peer := c.Context().RemoteIP().String()
	change := &seedbed.Change{Actor: p.Actor(), Role: grants[0].Role, Project: grants[0].Project, From: peer,
		Request: c.Method() + " " + strings.Clone(c.Path())}
	if asked := seedbed.ChangeOf(ctx); asked != nil {
		change.Keyed = asked.Keyed
	}
	ctx = seedbed.WithChange(ctx, change)
	s, err = r.Store.BeginSession(ctx, p, time.Now().Add(r.SignIn.Length), peer, sha256.Sum256([]byte(secret)))
	if err == nil {
		r.Log.Info("a person has signed in", "person", p.Actor(), "session", s.ID, "peer", peer)
	}
	return s, secret, err
}

// NoGrant returns the error for a person who may do nothing here, ErrForbidden.
func NoGrant(p seedbed.Person) error {
	return seedbed.Errorf(seedbed.ErrForbidden, "%s may do nothing in this installation: an administrator can add a grant for "+
		"the user, or for one of the groups, to its configuration (oidc.grants)", p.Actor())
}

// personOf returns the session whose secret has that digest, and its person's grants, of which there is
// at least one. It returns ErrNotFound if the session does not exist or has expired, or if people do not
// sign in here, and ErrForbidden if the person may do nothing any more.
func (r *Router) personOf(sum [sha256.Size]byte) (seedbed.Session, []seedbed.Grant, error) {
	if r.SignIn == nil {
		return seedbed.Session{}, nil, seedbed.Errorf(seedbed.ErrNotFound, "people do not sign in here")
	}
	ctx, cancel := context.WithTimeout(r.base, CallTimeout)
	defer cancel()
	s, err := r.Store.SessionOf(ctx, sum)
	if err != nil {
		return s, nil, err
	}
	grants := r.SignIn.GrantsOf(s.Person)
	if len(grants) == 0 {
		return s, nil, NoGrant(s.Person)
	}
	return s, grants, nil
}
