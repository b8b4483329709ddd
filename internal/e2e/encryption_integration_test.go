//go:build integration && libvirt

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// TestOverlayKey: a node that is to encrypt overlays makes its key, of which only the public part leaves it. What its kernel makes of
// that, the doctor says; TestDebianKernel has one that can encrypt.
func TestOverlayKey(t *testing.T) {
	s := lab.NewStack(t, lab.StackOptions{URI: "test:///default", // where the command can ask the daemons
		Network: `address: 192.0.2.77, overlay: {encryption: wireguard, port: 51899}`})
	dir := filepath.Join(s.Dir, "metadata")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	var tunnel seedbed.Tunnel
	lab.Await(t, lab.Patience, "the installation knows the node's key", func() bool {
		n, err := s.API.Node(t.Context(), "lab")
		if err == nil {
			tunnel = n.Report.Tunnel
		}
		return tunnel.Port == 51899
	})
	if public := read("overlay.pub"); tunnel.Key.String() != public || !strings.Contains(cli(t, s, "node", "show", "lab"), public) {
		t.Errorf("the node reports the key %s, and has %s; node show:\n%s", tunnel.Key, public, cli(t, s, "node", "show", "lab"))
	}
	private := read("overlay.key")
	if info, err := os.Stat(filepath.Join(dir, "overlay.key")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the private key has mode %v, %v", info.Mode(), err)
	}

	cli(t, s, "network", "add", "secret", "--kind", "isolated", "--prefix", "10.97.9.0/24", "--overlay", "--mtu", "1370")
	check, verdict, want := "overlay encryption", "ok", "0 tunnels, key "+tunnel.Key.String()
	if exec.Command("modprobe", "-n", "wireguard").Run() != nil {
		check, verdict, want = "bridge "+seedbed.BridgeOf("secret"), "problem", "load its module wireguard"
	}
	var all map[string]finding
	lab.Await(t, lab.Patience, "the doctor says how it stands with the overlay", func() bool {
		all = diagnose(t, s)
		return all[check].Verdict == verdict && strings.Contains(all[check].Detail, want)
	})
	if f := all["bridge "+s.Bridge]; f.Verdict != "ok" {
		t.Errorf("the other network: %+v", f)
	}

	s.Kill(lab.Metadata)
	s.Start(lab.Metadata)
	lab.Await(t, lab.Patience, "the doctor says the same after a restart", func() bool { return diagnose(t, s)[check].Verdict == verdict })
	if now := read("overlay.key"); now != private {
		t.Error("the node has another key after a restart")
	}
	for _, file := range []string{s.Config, filepath.Join(s.Dir, "seedbed.db"), filepath.Join(s.Dir, "seedbed.db-wal")} {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), private) {
			t.Errorf("%s has the private key", file)
		}
	}
	if strings.Contains(s.Logs(), private) {
		t.Error("a log has the private key")
	}
	cli(t, s, "network", "remove", "secret", "-y")
}
