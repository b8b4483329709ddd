package cephkey

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const text = "# a comment\n[client.admin]\n\tkey = YWRtaW4=\n[client.seedbed]\n" +
		"\tcaps mon = \"profile rbd\"\n\tkey = c2VlZGJlZA==\n[client.bad]\nkey = ???\n"
	for user, want := range map[string]string{"seedbed": "seedbed", "admin": "admin", "bad": "", "none": "", "": ""} {
		if got := string(Parse(text, user)); got != want {
			t.Errorf("%q: %q; want %q", user, got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "keyring")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if key, err := Read(path, "seedbed"); err != nil || string(key) != "seedbed" {
		t.Errorf("%q, %v", key, err)
	}
	_, err := Read(path, "bad")
	if !errors.Is(err, seedbed.ErrUnavailable) || strings.Contains(err.Error(), "???") {
		t.Errorf("a bad key: %v", err)
	}
	if _, err := Read(path+".none", "a"); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("no keyring: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[client.a]\nkey = YQ==\n", "a")
	f.Fuzz(func(_ *testing.T, text, user string) { Parse(text, user) })
}
