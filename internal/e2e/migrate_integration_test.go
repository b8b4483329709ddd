//go:build integration && libvirt

package e2e

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

// wanderData has a guest do several things without end, and say on the console what came of them. It asks its metadata service with one
// session token, every tenth of a second; a connection that is open while the guest changes its host ends, so it asks a second time. It
// writes to its disk and reads again what it wrote. And it has one TCP connection, to the guest hub, which sends back what it gets.
const wanderData = `#!/bin/sh
token=$(printf 'PUT /latest/api/token HTTP/1.1\r\nHost: 169.254.169.254\r\n%s\r\nConnection: close\r\n\r\n' \
	'X-aws-ec2-metadata-token-ttl-seconds: 21600' | timeout 10 nc 169.254.169.254 80 | tail -n 1)
echo "SEEDBED token $token"
imds=http://169.254.169.254/latest/meta-data
ask() {
	timeout 5 wget -q -O - --header "X-aws-ec2-metadata-token: $token" $imds/local-hostname
}
n=0
while usleep 100000; do
	name=$(ask) || name=$(ask) || echo "SEEDBED lost an answer"
	n=$((n+1))
	[ $((n % 10)) -ne 0 ] || echo "SEEDBED $name $((n / 10))"
done &

[ -b /dev/vda ] || echo "SEEDBED lost the disk"
part() {
	dd if=/dev/vda bs=64k skip=$((4096 + $1)) count=1 2>/dev/null
}
n=0
while usleep 100000; do
	for slot in 0 1 2 3 4 5 6 7; do
		head -c 65536 /dev/urandom >/tmp/part
		md5sum </tmp/part >/tmp/sum.$slot
		dd if=/tmp/part of=/dev/vda bs=64k seek=$((4096 + slot)) conv=notrunc,fsync 2>/dev/null
	done
	echo 3 >/proc/sys/vm/drop_caches
	for slot in 0 1 2 3 4 5 6 7; do
		part $slot | md5sum | cmp -s - /tmp/sum.$slot || echo "SEEDBED lost data in slot $slot"
	done
	n=$((n+1))
	echo "SEEDBED kept $n"
done &

until ping -c 1 -W 2 hub.app.internal >/dev/null; do
	sleep 1
done
n=0
while usleep 200000; do
	n=$((n+1))
	echo $n
done | nc hub.app.internal 7000 | (
	n=0
	while read -r line; do
		n=$((n+1))
		[ "$line" = $n ] || echo "SEEDBED lost line $n, and got $line"
		[ $((n % 10)) -ne 0 ] || echo "SEEDBED echo $((n / 10))"
	done
	echo "SEEDBED lost the connection") &
`

// hubData has a guest send back what it gets.
const hubData = "#!/bin/sh\nnc -ll -p 7000 -e cat &\n"

// TestMigrate takes a real guest from one host to another and back: while it runs, by libvirt over TLS with certificates of the
// installation, and switched off. With SEEDBED_LONG=1 it goes ten times. While it runs, it loses nothing: no answer of its metadata
// service, nothing of what it wrote, and not its connection to another guest.
func TestMigrate(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	w := newTwoNodes(t)
	addrs := map[string]netip.Addr{"lab": w.other.Host.Peer, "hv2": w.other.Host.Addr}
	w.Migrations(map[string]*lab.Host{"lab": w.home, "hv2": w.other.Host}, addrs)
	addImage(t, w.Stack, "guest", image)
	cli(t, w.Stack, "network", "add", "app", "--prefix", "10.97.5.0/24", "--kind", "isolated", "--overlay")
	for name, data := range map[string]string{"web": wanderData, "hub": hubData} {
		addProfile(t, w.Stack, seedbed.Profile{
			Name: name, Image: "guest", VCPUs: 1, Memory: 128 * seedbed.MiB, DiskSize: seedbed.GiB, Network: "app",
			UserData: []byte(data), Ready: seedbed.ReadyReport,
		})
	}
	lab.Await(t, lab.Patience, "both nodes say how guests come to them", func() bool {
		all, err := w.API.Nodes(t.Context())
		return err == nil && len(all) == 2 && all[0].Report.Migration.URI != "" && all[1].Report.Migration.URI != ""
	})
	cli(t, w.Stack, "create", "hub", "--profile", "hub", "--node", "lab")
	cli(t, w.Stack, "create", "web1", "--profile", "web", "--node", "lab")
	w.wanders(t, "lab")

	cli(t, w.Stack, "vm", "migrate", "web1")
	w.wanders(t, "hv2")
	console := w.console(t)
	if !strings.Contains(console, "SEEDBED web1 1\n") && !strings.Contains(console, "SEEDBED web1 1\r\n") {
		t.Errorf("the console has lost what the guest said on its former node:\n%s", console)
	}
	if out := cli(t, w.Stack, "vm", "show", "web1"); !strings.Contains(out, "goes back to") {
		t.Errorf("vm show:\n%s", out)
	}
	cli(t, w.Stack, "vm", "unmigrate", "web1")
	w.wanders(t, "lab")
	for range map[bool]int{true: 9}[sample.Long()] {
		cli(t, w.Stack, "vm", "migrate", "web1")
		w.wanders(t, "hv2")
		cli(t, w.Stack, "vm", "unmigrate", "web1")
		w.wanders(t, "lab")
	}

	// One that fails leaves the guest where it is.
	w.other.Host.Run("sh", "-c", "mv /etc/libvirt/seedbed/ca-cert.pem /etc/libvirt/seedbed/gone.pem")
	if _, stderr, status := w.CLI("vm", "migrate", "web1", "--node", "hv2"); status == 0 {
		t.Errorf("it migrated without a certificate: %s", stderr)
	}
	w.other.Host.Run("sh", "-c", "mv /etc/libvirt/seedbed/gone.pem /etc/libvirt/seedbed/ca-cert.pem")
	w.wanders(t, "lab")
	if lost := regexp.MustCompile("SEEDBED lost.*").FindAllString(w.console(t), -1); len(lost) != 0 {
		t.Errorf("the guest says: %q", lost)
	}

	cli(t, w.Stack, "vm", "move", "web1", "--cold", "--force")
	w.wanders(t, "hv2")
	cli(t, w.Stack, "vm", "stop", "web1", "--force")
	cli(t, w.Stack, "vm", "move", "web1")
	cli(t, w.Stack, "vm", "start", "web1")
	w.wanders(t, "lab")
	cli(t, w.Stack, "vm", "remove", "web1", "-y")
	cli(t, w.Stack, "vm", "remove", "hub", "-y")
	if here, there := w.Domains(), w.other.Domains(); len(here)+len(there) != 0 {
		t.Errorf("domains are left: %v, %v", here, there)
	}
	if files := w.files(t); len(files) != 0 {
		t.Errorf("volumes are left: %v", files)
	}
}

// wanders checks that the guest is on one of the nodes only, and waits until it has done each of its tasks there twice more.
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
	if !slices.Contains(here, "web1") || slices.Contains(there, "web1") {
		t.Fatalf("domains on %s: %v, and elsewhere: %v", node, here, there)
	}
	for _, what := range []string{"web1", "kept", "echo"} {
		said := func() int { return strings.Count(w.console(t), "SEEDBED "+what+" ") }
		before := said()
		lab.Await(t, 2*lab.Patience, "the guest goes on on "+node+": "+what, func() bool { return said() >= before+2 })
	}
}

// console is what web1 has said.
func (w *twoNodes) console(t *testing.T) string {
	t.Helper()
	return cli(t, w.Stack, "vm", "log", "web1", "--raw", "-n", "5000")
}
