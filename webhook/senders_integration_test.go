//go:build integration

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seedbed"
	"seedbed/webhook/signature"
)

// libraries are those of others, in a directory of the test's own, whose scripts were not run when
// they were installed.
func libraries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "senders"))); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// through gives a script there the lines, and gives back its own.
func through(t *testing.T, dir, script string, in *bytes.Buffer) [][]byte {
	t.Helper()
	run := exec.CommandContext(t.Context(), "node", script)
	run.Dir, run.Stdin, run.Stderr = dir, in, os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return bytes.Split(bytes.TrimSpace(out), []byte("\n"))
}

// What others' libraries sign is accepted over the wire, and a byte more is not; what is signed
// here is accepted by them.
func TestRealSenders(t *testing.T) {
	t.Parallel()
	dir := libraries(t)
	t.Run("receive", func(t *testing.T) { fromLibraries(t, dir) })
	t.Run("send", func(t *testing.T) { toLibraries(t, dir) })
}

func toLibraries(t *testing.T, dir string) {
	type delivery struct {
		Receiver string            `json:"receiver"`
		Secret   string            `json:"secret"`
		Headers  map[string]string `json:"headers"`
		Body     string            `json:"body"`
		good     bool
	}
	const body, text = `{"id":"evt_1","object":"event","name":"wéb <1> 😀"}`, "whsec_0123456789abcdef"
	var all []delivery
	var in bytes.Buffer
	for _, r := range []struct {
		name, secret, other string
		scheme              seedbed.Scheme
	}{
		{"standardwebhooks", vectorSecret, signature.FormatSecret(make([]byte, 32)), seedbed.SchemeStandard},
		{"svix", vectorSecret, signature.FormatSecret(make([]byte, 32)), seedbed.SchemeGitLabSigned},
		{"github", text, text + "0", seedbed.SchemeGitHub}, {"stripe", text, text + "0", seedbed.SchemeStripe},
	} {
		headers, err := signature.Headers(of(r.scheme), r.secret, "evt_1", time.Now(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, delivery{r.name, r.secret, headers, body, true}, delivery{r.name, r.secret, headers, body + " ",
			false}, delivery{r.name, r.other, headers, body, false})
	}
	for _, d := range all {
		if err := json.NewEncoder(&in).Encode(d); err != nil {
			t.Fatal(err)
		}
	}
	lines := through(t, dir, "verify.mjs", &in)
	if len(lines) != len(all) {
		t.Fatalf("%d lines: %s", len(lines), lines)
	}
	for i, d := range all {
		if got := string(lines[i]); got != fmt.Sprint(d.good) {
			t.Errorf("%s with %q and a body of %d bytes: verified %s, want %t", d.Receiver, d.Secret, len(d.Body), got, d.good)
		}
	}
}

func fromLibraries(t *testing.T, dir string) {
	now := time.Now()
	type delivery struct {
		Sender string `json:"sender"`
		Secret string `json:"secret"`
		ID     string `json:"id"`
		At     int64  `json:"at"`
		Body   string `json:"body"`
	}
	senders := []struct {
		name, secret string
		scheme       seedbed.Scheme
	}{
		{"standardwebhooks", vectorSecret, seedbed.SchemeStandard}, {"svix", vectorSecret, seedbed.SchemeStandard},
		{"svix", vectorSecret, seedbed.SchemeGitLabSigned},
		{"github", "a secret of some length", seedbed.SchemeGitHub}, {"stripe", "whsec_0123456789abcdef", seedbed.SchemeStripe},
	}
	d := directory{hooks: map[string]seedbed.Hook{}}
	var in bytes.Buffer
	for i, s := range senders {
		name := fmt.Sprint("h", i)
		key, err := signature.ParseKey(of(s.scheme), s.secret)
		if err != nil {
			t.Fatal(err)
		}
		d.hooks[name] = seedbed.Hook{Name: name, HookSettings: of(s.scheme), Keys: keys(key)}
		if err := json.NewEncoder(&in).Encode(delivery{s.name, s.secret, "evt_" + name, now.Unix(), create}); err != nil {
			t.Fatal(err)
		}
	}
	lines := through(t, dir, "sign.mjs", &in)
	service := start(t, Config{Hooks: d, Intake: &ledger{}})
	if len(lines) != len(senders) {
		t.Fatalf("%d lines: %s", len(lines), lines)
	}
	for i, line := range lines {
		var signed map[string]string
		if err := json.Unmarshal(line, &signed); err != nil {
			t.Fatal(err)
		}
		for body, status := range map[string]int{create: 202, create + " ": 401} {
			signed["Host"], signed["Content-Type"], signed["Content-Length"] = "x", "application/json", fmt.Sprint(len(body))
			if got := deliver(t, service, fmt.Sprint("h", i), signed, body); got.status != status {
				t.Errorf("%s to %s: %d %s, want %d", senders[i].name, senders[i].scheme, got.status, got.body, status)
			}
		}
	}
}
