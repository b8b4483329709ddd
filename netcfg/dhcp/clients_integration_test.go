//go:build integration

package dhcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed/netcfg/netnstest"
)

// TestDhcpcd runs the client of Raspberry Pi OS and others, with Debian's configuration.
func TestDhcpcd(t *testing.T) {
	g, leases := serve(t)
	dir := t.TempDir()
	for _, state := range []string{"/var/lib/dhcpcd", "/run/dhcpcd"} { // what it keeps is not the machine's
		if err := os.MkdirAll(state, 0o755); err != nil {
			t.Fatal(err)
		}
		netnstest.Run(t, "mount", "--bind", dir, state)
		t.Cleanup(func() { netnstest.Run(t, "umount", state) })
	}
	g.Run(t, "dhcpcd", "-4", "-1", "-B", "-t", "50", "eth0")
	configured(t, g, leases)
}

// TestNetworkd runs systemd-networkd, the client of Debian's cloud images and others.
func TestNetworkd(t *testing.T) {
	g, leases := serve(t)
	networks := t.TempDir()
	conf := "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n"
	if err := os.WriteFile(filepath.Join(networks, "eth0.network"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	for _, dir := range []string{"/etc/systemd/network", "/run/systemd/netif"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		from := map[bool]string{true: networks, false: state}[strings.HasPrefix(dir, "/etc")]
		netnstest.Run(t, "mount", "--bind", from, dir)
		t.Cleanup(func() { netnstest.Run(t, "umount", dir) })
	}
	// With a /sys that can be written, it waits for udev.
	netnstest.Run(t, "mount", "--bind", "/sys", "/sys")
	t.Cleanup(func() { netnstest.Run(t, "umount", "/sys") })
	netnstest.Run(t, "mount", "-o", "remount,bind,ro", "/sys")
	g.Do(func() {
		netnstest.Background(t, "sh", "-c", `/lib/systemd/systemd-networkd >"$0" 2>&1 & echo started; cat >/dev/null; kill $!; wait`,
			filepath.Join(networks, "log"))
	})
	for end := time.Now().Add(patience); !strings.Contains(g.Run(t, "ip", "route"), "default via"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(networks, "log"))
			t.Fatalf("no route:\n%s", log)
		}
	}
	configured(t, g, leases)
}
