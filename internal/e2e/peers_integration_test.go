//go:build integration && libvirt

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seedbed/internal/lab"
)

// One guest answers at two ports. Another, on another node, looks it up by name and asks at both: a rule allows one.
const (
	answering = `#!/bin/sh
for port in 8080 8081; do
	while :; do
		echo hello | nc -l -p $port
	done >/dev/null &
	until [ "$(timeout 3 nc 127.0.0.1 $port </dev/null)" = hello ]; do
		sleep 1
	done
done
`
	asking = `#!/bin/sh
until addr=$(nslookup db1.NETWORK.internal 169.254.169.253 | awk '/^Name:/ { on = 1 } on && /^Address/ { print $NF }') && [ -n "$addr" ]; do
	sleep 1
done
until [ "$(timeout 3 nc "$addr" 8080 </dev/null)" = hello ]; do
	sleep 1
done
echo "SEEDBED hello from $addr at 8080"
timeout 3 nc "$addr" 8081 </dev/null | sed 's/^/SEEDBED at 8081: /'
echo 'SEEDBED done'
`
)

// shared: on a network that reaches both hosts, a guest finds that of the other host by name, and reaches it as far as a
// rule about their security groups allows.
func (w *twoNodes) shared(t *testing.T) {
	w.home.Cable(w.other.Host, "wire")
	w.across(t, "lan", "10.97.4", "--kind", "bridged", "--uplink", "wire")
}

// overlay is shared in an overlay, of which the hosts' own network sees only VXLAN.
func (w *twoNodes) overlay(t *testing.T) {
	w.across(t, "app", "10.97.5", "--kind", "isolated", "--overlay")
}

func (w *twoNodes) across(t *testing.T, network, prefix string, flags ...string) {
	dir := t.TempDir()
	document := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "NETWORK", network)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	create := func(name, node, group, userData string) []string {
		return []string{"create", name, "--image", "guest", "--memory", "128MiB", "--user-data", document(name, userData), "--ready", "report",
			"--node", node, "--nic", "network=" + network, "--security-group", group}
	}
	for _, args := range [][]string{
		append([]string{"network", "add", network, "--prefix", prefix + ".0/24"}, flags...),
		{"security-group", "add", "app", "out any"},
		{"security-group", "add", "db", "in tcp 8080 from group app"},
		create("db1", "lab", "db", answering),
		create("app1", "hv2", "app", asking),
	} {
		if out, stderr, status := w.CLI(args...); status != 0 {
			console, _ := w.API.Console(t.Context(), args[1], 8<<10)
			t.Fatalf("seedbed %s: status %d: %s%s\n%s", strings.Join(args, " "), status, out, stderr, console)
		}
	}
	var console string
	lab.Await(t, lab.Patience, "the console shows what was asked", func() bool {
		b, err := w.API.Console(t.Context(), "app1", 1<<20)
		console = string(b)
		return err == nil && strings.Contains(console, "SEEDBED done")
	})
	hello := regexp.MustCompile(`SEEDBED hello from ` + regexp.QuoteMeta(prefix) + `\.\d+ at 8080`)
	if !hello.MatchString(console) || strings.Contains(console, "SEEDBED at 8081") {
		t.Errorf("console:\n%s", console[max(0, len(console)-4<<10):])
	}
	for _, name := range []string{"db1", "app1"} {
		removeInstance(t, w.Stack, name)
	}
	for _, args := range [][]string{{"network", "remove", network, "-y"}, {"security-group", "remove", "db", "-y"},
		{"security-group", "remove", "app", "-y"}} {
		cli(t, w.Stack, args...)
	}
}
