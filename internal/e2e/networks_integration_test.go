//go:build integration && libvirt

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// secondMAC is the MAC address of a guest's second NIC.
const secondMAC = "52:54:00:98:07:50"

// The IPv6 prefixes of the networks of a guest's NICs, and the address of the second NIC.
const (
	outerPrefix6 = "fd12:3456:789a:1::/64"
	innerPrefix6 = "fd12:3456:789a:2::/64"
	secondAddr6  = "fd12:3456:789a:2:5054:ff:fe98:750"
)

// must runs a command of the operator.
func must(t *testing.T, s *lab.Stack, args ...string) string {
	t.Helper()
	out, stderr, status := s.CLI(args...)
	if status != 0 {
		t.Fatalf("seedbed %s: status %d: %s%s", strings.Join(args, " "), status, out, stderr)
	}
	return out
}

// addNetwork makes an isolated network, lab, and gives it and the network default IPv6 prefixes.
func addNetwork(t *testing.T, s *lab.Stack) seedbed.Network {
	t.Helper()
	must(t, s, "network", "set", "default", "--prefix6", outerPrefix6)
	must(t, s, "network", "add", "lab", "--kind", "isolated", "--prefix", "10.98.7.0/24", "--prefix6", innerPrefix6, "--mtu", "1400",
		"--route", "10.98.8.0/24=10.98.7.9")
	n, err := s.API.Network(t.Context(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// leased fails unless a guest's second NIC has the lease of its address.
func leased(t *testing.T, s *lab.Stack) {
	t.Helper()
	lease := regexp.MustCompile(`10\.98\.7\.50 +` + secondAddr6 + ` +` + secondMAC + ` +guest1 +1 +\S+`)
	if out := must(t, s, "network", "leases", "lab"); !lease.MatchString(out) {
		t.Errorf("leases:\n%s", out)
	}
}

func removeNetwork(t *testing.T, s *lab.Stack, h *lab.Host, n seedbed.Network) {
	t.Helper()
	must(t, s, "network", "remove", n.Name, "-y")
	lab.Await(t, lab.Patience, "the bridge of the network goes", func() bool {
		_, err := h.Try("ip", "link", "show", n.Bridge)
		return err != nil
	})
}

// inGroups puts a guest into security groups while it runs, and pings it from its node.
func inGroups(t *testing.T, s *lab.Stack, h *lab.Host, vm seedbed.Instance) {
	t.Helper()
	for _, step := range []struct {
		args  string
		pings bool
	}{
		{"vm security-groups " + vm.Name, true},
		{"security-group add closed out any", true},
		{"vm security-groups " + vm.Name + " closed", false},
		{"security-group allow closed in icmp 8 from " + vm.NICs[0].Addr.String() + "/32", false}, // from itself alone
		{"security-group allow closed in icmp 8", true},
		{"security-group revoke closed in icmp 8", false},
		{"vm security-groups " + vm.Name + " open", true},
		{"security-group remove closed -y", true},
	} {
		if out, stderr, status := s.CLI(strings.Fields(step.args)...); status != 0 {
			t.Fatalf("seedbed %s: status %d: %s%s", step.args, status, out, stderr)
		}
		lab.Await(t, lab.Patience, fmt.Sprintf("%s: ping %t", step.args, step.pings), func() bool {
			_, err := h.Try("ping", "-c1", "-W2", vm.NICs[0].Addr.String())
			return (err == nil) == step.pings
		})
	}
}

// forwarded connects to a guest's SSH by a port of its node, while the forward is there.
func forwarded(t *testing.T, s *lab.Stack, h *lab.Host, vm seedbed.Instance, node string) {
	t.Helper()
	for _, step := range []struct {
		args    string
		answers bool
	}{
		{"network forward add " + vm.Name + " tcp:2222 22", true},
		{"network forward remove " + vm.Name + " tcp:2222 -y", false},
	} {
		if out, stderr, status := s.CLI(strings.Fields(step.args)...); status != 0 {
			t.Fatalf("seedbed %s: status %d: %s%s", step.args, status, out, stderr)
		}
		lab.Await(t, lab.Patience, fmt.Sprintf("%s: an answer: %t", step.args, step.answers), func() bool {
			out, _ := h.Try("timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+node+"/2222 && head -c 4 <&3")
			return (out == "SSH-") == step.answers
		})
	}
}

// floating reaches a guest's SSH at a floating address, which the node has on its own loopback interface.
func floating(t *testing.T, s *lab.Stack, h *lab.Host, vm seedbed.Instance) {
	t.Helper()
	const addr = "203.0.113.16"
	for _, step := range []struct {
		args    string
		answers bool
	}{
		{"network set default --floating " + addr + " --floating-uplink lo", false},
		{"address allocate default", false},
		{"address associate " + addr + " " + vm.Name, true},
		{"address disassociate " + addr + " -y", false},
		{"address release " + addr + " -y", false},
	} {
		if out, stderr, status := s.CLI(strings.Fields(step.args)...); status != 0 {
			t.Fatalf("seedbed %s: status %d: %s%s", step.args, status, out, stderr)
		}
		lab.Await(t, lab.Patience, fmt.Sprintf("%s: an answer: %t", step.args, step.answers), func() bool {
			out, _ := h.Try("timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+addr+"/22 && head -c 4 <&3")
			return (out == "SSH-") == step.answers
		})
	}
}

const onWire = `#!/bin/sh
ip -4 -o addr show dev eth0 | sed 's/^/SEEDBED addr /'
ip -4 route show | sed 's/^/SEEDBED route /'
echo "SEEDBED name $(wget -q -O - http://169.254.169.254/latest/meta-data/local-hostname)"
echo 'SEEDBED done'
`

// TestBridgedGuest boots a guest on a bridge of its host, where another DHCP server gives it an address and a router. It
// still finds its metadata.
func TestBridgedGuest(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	h := lab.NewHost(t)
	h.Libvirt()
	s := lab.NewStack(t, lab.StackOptions{Host: h, Jobs: "{poll: 50ms, stage_timeout: {ready: 30m}}"})
	addImage(t, s, "small", image)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	h.Run("ip", "link", "add", "br-lan", "type", "bridge")
	h.Run("ip", "addr", "add", "10.97.3.1/24", "dev", "br-lan")
	h.Run("ip", "link", "set", "br-lan", "up")
	conf := write("udhcpd.conf", "start 10.97.3.100\nend 10.97.3.150\ninterface br-lan\nlease_file "+write("leases", "")+
		"\npidfile "+dir+"/pid\noption router 10.97.3.1\noption subnet 255.255.255.0\n")
	server := h.Start(filepath.Join(dir, "udhcpd.log"), "busybox", "udhcpd", "-f", conf)
	document := write("user-data", onWire)
	for _, args := range [][]string{
		{"network", "add", "wire", "--kind", "bridged", "--uplink", "br-lan"},
		{"create", "wired", "--image", "small", "--memory", "128MiB", "--user-data", document, "--ready", "report",
			"--nic", "network=wire"},
	} {
		if out, stderr, status := s.CLI(args...); status != 0 {
			console, _ := s.API.Console(t.Context(), "wired", 8*seedbed.KiB)
			t.Fatalf("seedbed %s: status %d: %s%s\n%s\n%s", strings.Join(args, " "), status, out, stderr, console, server.Tail())
		}
	}
	var console string
	lab.Await(t, lab.Patience, "the console shows what user-data printed", func() bool {
		b, err := s.API.Console(t.Context(), "wired", seedbed.MiB)
		console = string(b)
		return err == nil && strings.Contains(console, "SEEDBED done")
	})
	for _, want := range []string{
		`SEEDBED addr .* 10\.97\.3\.1\d\d/24`, `SEEDBED route default via 10\.97\.3\.1`, `SEEDBED name wired`,
	} {
		if !regexp.MustCompile(want).MatchString(console) {
			t.Errorf("the console does not show %s:\n%s", want, console[max(0, len(console)-8<<10):])
		}
	}
	removeInstance(t, s, "wired")
	if out, stderr, status := s.CLI("network", "remove", "wire", "-y"); status != 0 {
		t.Fatal(out, stderr)
	}
	refusedOnWire(t, s)
	lab.Await(t, lab.Patience, "nothing of the network is left but the host's own bridge", func() bool {
		out := h.Run("ip", "-o", "link")
		return !strings.Contains(out, " su-") && !strings.Contains(out, " sp-") && strings.Contains(out, " br-lan")
	})
}

// refusedOnWire makes a network on the same bridge, whose addresses are Seedbed's, and an instance with the address that the
// host of the bridge has there.
func refusedOnWire(t *testing.T, s *lab.Stack) {
	t.Helper()
	must(t, s, "network", "add", "fixed", "--kind", "bridged", "--uplink", "br-lan", "--prefix", "10.97.3.0/24")
	create := []string{"create", "second", "--image", "small", "--memory", "128MiB", "--ready", "started",
		"--nic", "network=fixed,ip=10.97.3.1"}
	out, stderr, status := s.CLI(create...)
	if want := "address 10.97.3.1 of network fixed is used by a host with the MAC address "; status == 0 || !strings.Contains(stderr, want) {
		t.Errorf("status %d: %s%s; want %q", status, out, stderr, want)
	}
	const free = "10.97.3.77"
	create[len(create)-1] = "network=fixed,ip=" + free
	must(t, s, create...)
	out, stderr, status = s.CLI("address", "assign", "second", "10.97.3.1")
	if want := "address 10.97.3.1 of network fixed is used by a host with the MAC address "; status == 0 || !strings.Contains(stderr, want) {
		t.Errorf("a further address of a running guest: status %d: %s%s; want %q", status, out, stderr, want)
	}
	must(t, s, "address", "assign", "second", "10.97.3.78")
	must(t, s, "address", "unassign", "second", "10.97.3.78", "-y")
	removeInstance(t, s, "second")
	must(t, s, "network", "set", "fixed", "--no-probe")
	create[len(create)-1] = "network=fixed,ip=10.97.3.1"
	must(t, s, create...)
	removeInstance(t, s, "second")
	must(t, s, "network", "remove", "fixed", "-y")
}
