package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/testdb"
)

func TestDeclaredHooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, short := filepath.Join(dir, "forge.secret"), filepath.Join(dir, "short.secret")
	for file, text := range map[string]string{secret: "a secret of some length\n", short: "short"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parse := func(hook string) ([]seedbed.Hook, error) {
		c, err := config.Parse("test", []byte("webhook:\n  hooks:\n    - "+hook+"\n"))
		if err != nil {
			return nil, err
		}
		return declaredHooks(c.Webhook)
	}
	got, err := parse(fmt.Sprintf(`{name: forge, scheme: github, keys: [{id: k1, secret_file: %s, not_after: 2030-01-01T00:00:00Z}],`+
		` profiles: [web], cidrs: [192.0.2.0/24], when: "body.x == 1"}`, secret))
	if err != nil || len(got) != 1 || string(got[0].Keys[0].Secret) != "a secret of some length" || got[0].Keys[0].NotAfter.Year() != 2030 ||
		got[0].Scheme != seedbed.SchemeGitHub || got[0].Tolerance != 5*time.Minute || len(got[0].CIDRs) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, test := range map[string]struct{ hook, says string }{
		"unknown key":        {`{name: a, speed: 1}`, "speed"},
		"unknown scheme":     {`{name: a, scheme: sha1}`, "webhook.hooks[0].scheme"},
		"unknown action":     {`{name: a, actions: [explode]}`, "explode"},
		"no key":             {`{name: a, scheme: github}`, "hook a: the hook has no key"},
		"short secret":       {`{name: a, scheme: github, keys: [{id: k1, secret_file: ` + short + `}]}`, "the secret has 5 characters"},
		"no such file":       {`{name: a, keys: [{id: k1, secret_file: ` + dir + `/none}]}`, "no such file"},
		"rule":               {`{name: a, scheme: github, when: "body.", keys: [{id: k1, secret_file: ` + secret + `}]}`, "when: line 1"},
		"certificates":       {`{name: a, subjects: [x], keys: [{id: k1, secret_file: ` + secret + `}]}`, "client_ca"},
		"relative file":      {`{name: a, keys: [{id: k1, secret_file: secret}]}`, "absolute path"},
		"the same key twice": {`{name: a, name: b}`, "name"},
	} {
		if got, err := parse(test.hook); err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "some length") {
			t.Errorf("%s: %+v, %v, want an error with %q", name, got, err, test.says)
		}
	}
	db := testdb.Open(t)
	defer db.Close()
	if err := db.DeclareHooks(t.Context(), got); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("with a profile that is not there: %v", err)
	}
	got[0].Profiles = nil
	if err := db.DeclareHooks(t.Context(), got); err != nil {
		t.Error(err)
	}
	if h, err := db.Hook(t.Context(), "forge"); err != nil || !h.Declared {
		t.Errorf("%+v, %v", h, err)
	}
}
