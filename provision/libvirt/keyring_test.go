package libvirt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
)

func TestKeyring(t *testing.T) {
	t.Parallel()
	const text = "# a comment\n[client.admin]\n\tkey = YWRtaW4=\n[client.seedbed]\n\tcaps mon = \"profile rbd\"\n\tkey = c2VlZGJlZA==\n[client.bad]\nkey = ???\n"
	for user, want := range map[string]string{"seedbed": "seedbed", "admin": "admin", "bad": "", "none": "", "": ""} {
		if got := string(parseKeyring(text, user)); got != want {
			t.Errorf("%q: %q; want %q", user, got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "keyring")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if key, err := (Secret{User: "seedbed", Keyring: path}).key(); err != nil || string(key) != "seedbed" {
		t.Errorf("%q, %v", key, err)
	}
	_, err := Secret{User: "bad", Keyring: path}.key()
	if !errors.Is(err, seedbed.ErrUnavailable) || strings.Contains(err.Error(), "???") {
		t.Errorf("a bad key: %v", err)
	}
	if _, err := (Secret{User: "a", Keyring: path + ".none"}).key(); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("no keyring: %v", err)
	}
}

func FuzzParseKeyring(f *testing.F) {
	f.Add("[client.a]\nkey = YQ==\n", "a")
	f.Fuzz(func(_ *testing.T, text, user string) { parseKeyring(text, user) })
}
