package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/oidctest"
	"seedbed/store"
)

func TestOpenSignIn(t *testing.T) {
	t.Parallel()
	at := oidctest.Start()
	defer at.Close()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "seedbed.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := config.Default().OIDC
	if in, _, err := openSignIn(t.Context(), db, c); in != nil || err != nil {
		t.Errorf("without a provider: %+v, %v", in, err)
	}
	c.Issuer, c.ClientID, c.Session = at.URL, oidctest.ClientID, time.Hour
	c.ClientSecretFile = file("secret", oidctest.Secret+"\n", 0o600)
	c.Grants = []seedbed.PersonGrant{{User: "anna", Project: "default", Role: seedbed.RoleAdmin}}
	in, provider, err := openSignIn(t.Context(), db, c)
	if err != nil || len(in.Key) != 32 {
		t.Fatalf("%+v, %v", in, err)
	}
	defer provider.Close()
	again, _, err := openSignIn(t.Context(), db, c)
	if err != nil || string(again.Key) != string(in.Key) {
		t.Errorf("another start has another key: %v", err)
	}
	for want, change := range map[string]func(*config.OIDC){
		"everyone may use": func(c *config.OIDC) { c.ClientSecretFile = file("open", "x", 0o644) },
		"is empty":         func(c *config.OIDC) { c.ClientSecretFile = file("empty", "\n", 0o600) },
		"no certificate":   func(c *config.OIDC) { c.CA = file("ca", "x", 0o600) },
	} {
		wrong := c
		change(&wrong)
		if _, _, err := openSignIn(t.Context(), db, wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check := func() seedbed.Check {
		return signInChecks(provider, in.Grants, db.Project, db.Role)(context.Background())[0]
	}
	if got := check(); !got.OK {
		t.Errorf("%+v", got)
	}
	in.Grants = []seedbed.PersonGrant{{User: "anna", Project: "acme", Role: "starter"}}
	if got := check(); got.OK || !strings.Contains(got.Detail, "project acme, role starter") {
		t.Errorf("%+v", got)
	}
	at.Close()
	if got := check(); got.OK || !strings.Contains(got.Detail, "refused") {
		t.Errorf("%+v", got)
	}
}
