//go:build integration && libvirt

package e2e

import (
	"net/netip"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// wanderData has a guest draw one session token and ask its metadata service with it without end, and say on the console what it
// was answered.
const wanderData = `#!/bin/sh
token=$(printf 'PUT /latest/api/token HTTP/1.1\r\nHost: 169.254.169.254\r\n%s\r\nConnection: close\r\n\r\n' \
	'X-aws-ec2-metadata-token-ttl-seconds: 21600' | timeout 10 nc 169.254.169.254 80 | tail -n 1)
echo "SEEDBED token $token"
n=0
imds=http://169.254.169.254/latest/meta-data
while sleep 1; do
	name=$(timeout 5 wget -q -O - --header "X-aws-ec2-metadata-token: $token" $imds/local-hostname) || continue
	n=$((n+1))
	echo "SEEDBED $name $n"
done &
`

// TestMigrate takes a real guest from one host to another and back: while it runs, by libvirt over TLS with certificates of the
// installation, and switched off. All the time it asks its metadata service with one session token.
func TestMigrate(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	w := newTwoNodes(t)
	addrs := map[string]netip.Addr{"lab": w.other.Host.Peer, "hv2": w.other.Host.Addr}
	w.Migrations(map[string]*lab.Host{"lab": w.home, "hv2": w.other.Host}, addrs)
	addImage(t, w.Stack, "guest", image)
	addProfile(t, w.Stack, seedbed.Profile{
		Name: "web", Image: "guest", VCPUs: 1, Memory: 128 * seedbed.MiB, DiskSize: seedbed.GiB,
		UserData: []byte(wanderData), Ready: seedbed.ReadyReport,
	})
	lab.Await(t, lab.Patience, "both nodes say how guests come to them", func() bool {
		all, err := w.API.Nodes(t.Context())
		return err == nil && len(all) == 2 && all[0].Report.Migration.URI != "" && all[1].Report.Migration.URI != ""
	})
	cli(t, w.Stack, "create", "web1", "--profile", "web", "--node", "lab")
	w.wanders(t, "lab")

	cli(t, w.Stack, "vm", "migrate", "web1")
	w.wanders(t, "hv2")
	console := cli(t, w.Stack, "vm", "log", "web1", "--raw", "-n", "1000")
	if !strings.Contains(console, "SEEDBED web1 1\n") && !strings.Contains(console, "SEEDBED web1 1\r\n") {
		t.Errorf("the console has lost what the guest said on its former node:\n%s", console)
	}
	if out := cli(t, w.Stack, "vm", "show", "web1"); !strings.Contains(out, "goes back to") {
		t.Errorf("vm show:\n%s", out)
	}
	cli(t, w.Stack, "vm", "unmigrate", "web1")
	w.wanders(t, "lab")

	// One that fails leaves the guest where it is.
	w.other.Host.Run("sh", "-c", "mv /etc/libvirt/seedbed/ca-cert.pem /etc/libvirt/seedbed/gone.pem")
	if _, stderr, status := w.CLI("vm", "migrate", "web1", "--node", "hv2"); status == 0 {
		t.Errorf("it migrated without a certificate: %s", stderr)
	}
	w.other.Host.Run("sh", "-c", "mv /etc/libvirt/seedbed/gone.pem /etc/libvirt/seedbed/ca-cert.pem")
	w.wanders(t, "lab")

	cli(t, w.Stack, "vm", "move", "web1", "--cold", "--force")
	w.wanders(t, "hv2")
	cli(t, w.Stack, "vm", "stop", "web1", "--force")
	cli(t, w.Stack, "vm", "move", "web1")
	cli(t, w.Stack, "vm", "start", "web1")
	w.wanders(t, "lab")
	cli(t, w.Stack, "vm", "remove", "web1", "-y")
	if here, there := w.Domains(), w.other.Domains(); len(here)+len(there) != 0 {
		t.Errorf("domains are left: %v, %v", here, there)
	}
	if files := w.files(t); len(files) != 0 {
		t.Errorf("volumes are left: %v", files)
	}
}

// wanders checks that the guest is on one of the nodes only, and waits until it has been answered there twice more.
func (w *twoNodes) wanders(t *testing.T, node string) {
	t.Helper()
	vm, err := w.API.Instance(t.Context(), "web1")
	if err != nil || vm.Node != node || vm.State != seedbed.InstanceRunning {
		t.Fatalf("instance %s on %s, %v; want it to run on %s", vm.State, vm.Node, err, node)
	}
	here, there := w.Domains(), w.other.Domains()
	if node == "hv2" {
		here, there = there, here
	}
	if len(here) != 1 || here[0] != "web1" || len(there) != 0 {
		t.Fatalf("domains on %s: %v, and elsewhere: %v", node, here, there)
	}
	answers := func() int {
		return strings.Count(cli(t, w.Stack, "vm", "log", "web1", "--raw", "-n", "2000"), "SEEDBED web1 ")
	}
	before := answers()
	lab.Await(t, 2*lab.Patience, "the guest is served on "+node, func() bool { return answers() >= before+2 })
}
