//go:build integration

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seedbed"
	"seedbed/webhook/signature"
)

// What others' libraries sign is accepted over the wire, and a byte more is not.
func TestRealSenders(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "senders")
	if out, err := exec.CommandContext(t.Context(), "npm", "ci", "--prefix", dir, "--no-audit", "--no-fund").CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
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
	sign := exec.CommandContext(t.Context(), "node", "sign.mjs")
	sign.Dir, sign.Stdin = dir, &in
	out, err := sign.Output()
	if err != nil {
		t.Fatalf("sign.mjs: %v\n%s", err, out)
	}
	service := start(t, Config{Hooks: d, Intake: &ledger{}})
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(senders) {
		t.Fatalf("%d lines: %s", len(lines), out)
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
