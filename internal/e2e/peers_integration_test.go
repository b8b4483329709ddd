//go:build integration && libvirt

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seedbed/internal/lab"
)

// One guest answers at two ports. Another, on another node, asks at both: a rule allows one. Each finds the other by name, and pings it.
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
(until ping -c 1 -W 2 app1.FROM.internal >/dev/null; do
	sleep 1
done
echo 'SEEDBED app1 answers a ping') &
`
	asking = `#!/bin/sh
until ping -c 1 -W 2 db1.NETWORK.internal >/tmp/ping; do
	sleep 1
done
sed -n 's/^PING .* (\([0-9.]*\)):.*/SEEDBED \1 answers a ping/p' /tmp/ping
until [ "$(timeout 3 nc db1.NETWORK.internal 8080 </dev/null)" = hello ]; do
	sleep 1
done
echo 'SEEDBED hello from port 8080'
timeout 3 nc db1.NETWORK.internal 8081 </dev/null | sed 's/^/SEEDBED at 8081: /'
echo 'SEEDBED done'
`
)

// shared: on a network that reaches both hosts, a guest finds that of the other host by name, and reaches it as far as a
// rule about their security groups allows.
func (w *twoNodes) shared(t *testing.T) {
	w.home.Cable(w.other.Host, "wire")
	w.across(t, span{network: "lan", prefix: "10.97.4", flags: []string{"--kind", "bridged", "--uplink", "wire"}})
}

// overlay is shared in an overlay, of which the hosts' own network sees only VXLAN.
func (w *twoNodes) overlay(t *testing.T) {
	w.across(t, span{network: "app", prefix: "10.97.5", flags: []string{"--kind", "isolated", "--overlay"}})
}

// peered is overlay between two overlays that are peers. A rule names the other by its prefix.
func (w *twoNodes) peered(t *testing.T) {
	overlay := []string{"--kind", "isolated", "--overlay"}
	cli(t, w.Stack, append([]string{"network", "add", "web", "--prefix", "10.97.7.0/24"}, overlay...)...)
	w.across(t, span{network: "deep", prefix: "10.97.6", flags: overlay, from: "web", rule: "in tcp 8080 from 10.97.7.0/24"})
	cli(t, w.Stack, "network", "remove", "web", "-y")
}

// span is a network that reaches both hosts, and the prefix of its addresses.
type span struct {
	network, prefix string
	flags           []string
	// from is the network of the guest that asks, and rule allows it to, if the guests are in two networks that are peers.
	from, rule string
}

func (w *twoNodes) across(t *testing.T, s span) {
	dir := t.TempDir()
	from, rule, peer := s.network, "in tcp 8080 from group app", [][]string(nil)
	if s.from != "" {
		from, rule, peer = s.from, s.rule, [][]string{{"network", "peer", s.network, s.from}}
	}
	document := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.NewReplacer("NETWORK", s.network, "FROM", from).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	create := func(name, node, network, group, userData string) []string {
		return []string{"create", name, "--image", "guest", "--memory", "128MiB", "--user-data", document(name, userData), "--ready", "report",
			"--node", node, "--nic", "network=" + network, "--security-group", group}
	}
	for _, args := range slices.Concat([][]string{append([]string{"network", "add", s.network, "--prefix", s.prefix + ".0/24"}, s.flags...)},
		peer, [][]string{
			{"security-group", "add", "app", "out any", "in icmp"},
			{"security-group", "add", "db", rule, "in icmp", "out icmp"},
			create("db1", "lab", s.network, "db", answering),
			create("app1", "hv2", from, "app", asking),
		}) {
		if out, stderr, status := w.CLI(args...); status != 0 {
			console, _ := w.API.Console(t.Context(), args[1], 8<<10)
			t.Fatalf("seedbed %s: status %d: %s%s\n%s", strings.Join(args, " "), status, out, stderr, console)
		}
	}
	shows := func(name, text string) (console string) {
		lab.Await(t, lab.Patience, "the console of "+name+" shows: "+text, func() bool {
			b, err := w.API.Console(t.Context(), name, 1<<20)
			console = string(b)
			return err == nil && strings.Contains(console, text)
		})
		return console
	}
	shows("db1", "SEEDBED app1 answers a ping")
	console := shows("app1", "SEEDBED done")
	pinged := regexp.MustCompile(`SEEDBED ` + regexp.QuoteMeta(s.prefix) + `\.\d+ answers a ping`)
	hello := strings.Contains(console, "SEEDBED hello from port 8080")
	if !pinged.MatchString(console) || !hello || strings.Contains(console, "SEEDBED at 8081") {
		t.Errorf("console:\n%s", console[max(0, len(console)-4<<10):])
	}
	for _, name := range []string{"db1", "app1"} {
		removeInstance(t, w.Stack, name)
	}
	for _, args := range [][]string{{"network", "remove", s.network, "-y"}, {"security-group", "remove", "db", "-y"},
		{"security-group", "remove", "app", "-y"}} {
		cli(t, w.Stack, args...)
	}
}
