package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed/internal/config"
)

// TestSecretOfADeclaredHook checks that a secret that everyone may read is refused, and that a
// public key may be read.
func TestSecretOfADeclaredHook(t *testing.T) {
	t.Parallel()
	const secret, public = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
	for name, test := range map[string]struct {
		mode         os.FileMode
		scheme, text string
		says         string
	}{
		"owner":             {0o600, "standard", secret, ""},
		"group":             {0o640, "standard", secret, ""},
		"everyone reads":    {0o644, "standard", secret, "chmod 640 or 600"},
		"everyone writes":   {0o602, "standard", secret, "chmod 640 or 600"},
		"public key":        {0o644, "standard-v1a", public, ""},
		"public for others": {0o644, "github", public, "chmod 640 or 600"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(file, []byte(test.text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, test.mode); err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse("test",
				[]byte("webhook: {hooks: [{name: a, scheme: "+test.scheme+", keys: [{id: k1, secret_file: "+file+"}]}]}\n"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := declaredHooks(c.Webhook)
			switch {
			case test.says == "" && (err != nil || len(got) != 1 || len(got[0].Keys[0].Secret) == 0):
				t.Errorf("%+v, %v", got, err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), test.text)):
				t.Errorf("%+v, %v, want an error with %q", got, err, test.says)
			}
		})
	}
}

// TestDeclaredMaxBody checks that a declared hook is refused if the listener would refuse its
// deliveries.
func TestDeclaredMaxBody(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"webhook: {hooks: [{name: a, max_body: 256KiB}]}":                      true,
		"webhook: {hooks: [{name: a, max_body: 257KiB}]}":                      false,
		"webhook: {max_body: 1MiB, hooks: [{name: a, max_body: 1MiB}]}":        true,
		"webhook: {max_body: 64KiB, hooks: [{name: a, max_body: 65KiB}]}":      false,
		"webhook: {max_body: 64KiB, hooks: [{name: a}, {name: b, rate: 2.5}]}": true,
	} {
		_, err := config.Parse("test", []byte(text+"\n"))
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "at most webhook.max_body") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
