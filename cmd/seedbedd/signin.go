package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api"
	"seedbed/api/signin"
	"seedbed/internal/config"
	"seedbed/store"
)

// settingSignIn is the key that seals the cookies of people who sign in. All control hosts share it.
const settingSignIn = "sign_in_key"

// openSignIn returns how people sign in, or nil if the configuration names no provider. It does not call
// the provider.
func openSignIn(ctx context.Context, db *store.DB, c config.OIDC) (*api.SignIn, *signin.Provider, error) {
	if c.Issuer == "" {
		return nil, nil, nil
	}
	at := signin.Config{Issuer: c.Issuer, ClientID: c.ClientID, Redirect: c.Redirect, Scopes: c.Scopes,
		UsernameClaim: c.UsernameClaim, GroupsClaim: c.GroupsClaim}
	if c.ClientSecretFile != "" {
		text, err := secretText(c.ClientSecretFile, false)
		if err != nil {
			return nil, nil, fmt.Errorf("oidc.client_secret_file: %w", err)
		}
		if at.Secret = strings.TrimSpace(text); at.Secret == "" {
			return nil, nil, fmt.Errorf("oidc.client_secret_file: %s is empty: expected the client's secret", c.ClientSecretFile)
		}
	}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, nil, fmt.Errorf("oidc.ca: %w", err)
		}
		at.Roots = x509.NewCertPool()
		if !at.Roots.AppendCertsFromPEM(pem) {
			return nil, nil, fmt.Errorf("oidc.ca: %s holds no certificate in PEM", c.CA)
		}
	}
	key, err := db.SettingOnce(ctx, settingSignIn, func() []byte {
		key := make([]byte, 32)
		rand.Read(key) // never fails (crypto/rand)
		return key
	})
	if err != nil {
		return nil, nil, err
	}
	provider := signin.New(at)
	return &api.SignIn{Provider: provider, Redirect: c.Redirect, Length: c.Session, Grants: c.Grants, Key: key}, provider, nil
}

// signInChecks returns the check that the provider answers, and that the projects and roles of the grants
// exist.
func signInChecks(
	provider *signin.Provider, grants []seedbed.PersonGrant,
	projects func(context.Context, string) (seedbed.Project, error), roles func(context.Context, seedbed.Role) (seedbed.CustomRole, error),
) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		check := seedbed.Check{Name: "sign-in", Detail: provider.Issuer() + " answers"}
		if err := provider.Check(ctx); err != nil {
			check.Detail, check.Hint = err.Error(), "until it answers, people cannot sign in; sessions and tokens work"
			return []seedbed.Check{check}
		}
		var missing []string
		for _, g := range grants {
			_, err := projects(ctx, g.Project)
			if errors.Is(err, seedbed.ErrNotFound) {
				missing = append(missing, "project "+g.Project)
			}
			if _, ok := g.Role.BuiltIn(); !ok {
				if _, err := roles(ctx, g.Role); errors.Is(err, seedbed.ErrNotFound) {
					missing = append(missing, "role "+string(g.Role))
				}
			}
		}
		if check.OK = len(missing) == 0; !check.OK {
			slices.Sort(missing)
			check.Detail = "oidc.grants names what does not exist: " + strings.Join(slices.Compact(missing), ", ")
			check.Hint = "make it (seedbed project add, seedbed role add), or correct oidc.grants in seedbed.yaml"
		}
		return []seedbed.Check{check}
	}
}
