package signin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"seedbed"
)

// skew is how far in the future the provider's clock may be.
const skew = 5 * time.Minute

// verify returns the person of an ID token, if that is one for this sign-in. access is the access token
// that came with it.
func (p *Provider) verify(ctx context.Context, k *known, raw, nonce, access string) (seedbed.Person, error) {
	token, err := k.verifier.Verify(ctx, raw)
	if err != nil {
		return seedbed.Person{}, p.verifyError(err)
	}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return seedbed.Person{}, refused("the claims of the ID token cannot be read")
	}
	party, named := text(claims["azp"])
	switch {
	case nonce == "" || token.Nonce != nonce:
		return seedbed.Person{}, refused("the ID token is one for another sign-in: its nonce is not the one that was sent")
	case (named || len(token.Audience) > 1) && party != p.config.ClientID:
		return seedbed.Person{}, refused("the ID token was made for another client: its authorized party is %q, expected %q",
			seedbed.Clip(party), p.config.ClientID)
	case time.Until(token.IssuedAt) > skew:
		return seedbed.Person{}, refused("the ID token is from the future: compare the clocks of this host and of the provider")
	case token.AccessTokenHash != "" && token.VerifyAccessToken(access) != nil:
		return seedbed.Person{}, refused("the ID token belongs to another access token: its at_hash differs")
	}
	return p.person(token.Subject, claims)
}

// verifyError translates an error of the verification.
func (p *Provider) verifyError(err error) error {
	if expired, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return refused("the ID token expired at %s: compare the clocks of this host and of the provider",
			expired.Expiry.UTC().Format(time.RFC3339))
	}
	if strings.Contains(err.Error(), "fetching keys") { // the library does not wrap this one
		return p.unavailable("its keys", err)
	}
	return refused("the ID token of %s is not valid: %s", p.config.Issuer, line(err.Error()))
}

// person returns the person that the claims describe.
func (p *Provider) person(subject string, claims map[string]json.RawMessage) (seedbed.Person, error) {
	who := seedbed.Person{Issuer: p.config.Issuer, Subject: subject, Groups: []string{}}
	var ok bool
	if who.Name, ok = text(claims[p.config.UsernameClaim]); !ok {
		return who, refused("the ID token has no claim %s: choose another one (oidc.username_claim), or a scope that adds it (oidc.scopes)",
			p.config.UsernameClaim)
	}
	// An address that the provider has not verified may be one of another person.
	var verified bool
	if p.config.UsernameClaim == "email" && (json.Unmarshal(claims["email_verified"], &verified) != nil || !verified) {
		return who, refused("the provider has not verified the address %s (email_verified)", seedbed.Clip(who.Name))
	}
	if groups, there := claims[p.config.GroupsClaim]; there && p.config.GroupsClaim != "" {
		if one, ok := text(groups); ok {
			who.Groups = []string{one}
		} else if json.Unmarshal(groups, &who.Groups) != nil {
			return who, refused("the claim %s of the ID token is not a list of groups", p.config.GroupsClaim)
		}
	}
	slices.Sort(who.Groups)
	who.Groups = append([]string{}, slices.Compact(who.Groups)...)
	if err := who.Check(); err != nil {
		return who, refused("%s", err)
	}
	return who, nil
}

// text returns a claim that is a text.
func text(claim json.RawMessage) (s string, ok bool) {
	if claim == nil || json.Unmarshal(claim, &s) != nil {
		return "", false
	}
	return s, s != ""
}
