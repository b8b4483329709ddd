//go:build integration && libvirt

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// The benchmarks print a line for each turn, which make bench-lifecycle reads: what was measured, and what that is compared with.

// BenchmarkFailover loses a node with ten guests, and ends when libvirt on the other node says that they run.
func BenchmarkFailover(b *testing.B) {
	const guests = 10
	image := lab.SmallGuestImage(b)
	w := newTwoNodesWith(b, lab.StackOptions{Fencing: "{after: 40s}"})
	socket := w.withAgent(b)
	addImage(b, w.Stack, "guest", image)
	addProfile(b, w.Stack, seedbed.Profile{Name: "small", Image: "guest", VCPUs: 1, Memory: 128 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	for turn := range turns {
		var names []string
		for n := range guests {
			names = append(names, fmt.Sprintf("web%d-%d", turn, n))
			cli(b, w.Stack, "create", names[n], "--profile", "small", "--node", "hv2", "--restart", "always")
		}
		began := time.Now()
		w.other.Kill(lab.Worker) // first what would say that guests have ended
		w.other.Kill(lab.Metadata)
		w.libvirtd.Kill()
		for _, name := range names {
			w.signal(b, name, syscall.SIGKILL)
		}
		socket.await(b, "ask")
		asked := time.Since(began)
		socket.write(b, "off")
		lab.Await(b, 2*lab.Patience, "the guests run on lab", func() bool {
			all := w.Domains()
			return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
		})
		fmt.Printf("LIFECYCLE failover %.3f %.3f\n", time.Since(began).Seconds(), asked.Seconds())
		socket.remove(b)
		w.libvirtd = w.other.Host.Libvirt()
		w.other.Start(lab.Worker)
		w.other.Start(lab.Metadata)
		w.await(b, "hv2", seedbed.NodeReady)
		for _, name := range names {
			removeInstance(b, w.Stack, name)
		}
	}
}

// turns is how often the benchmarks measure.
const turns = 3

// busyData has a guest write to its memory without end.
const busyData = `#!/bin/sh
(n=0
while :; do
	dd if=/dev/urandom of=/tmp/load bs=64k count=256 conv=notrunc 2>/dev/null
	n=$((n+1))
	echo "SEEDBED load $n"
done) &
`

// BenchmarkMigrate takes two guests under the same load from one node to the other and back in turn: one by vm migrate, and one, which
// Seedbed has forgotten, by virsh migrate.
func BenchmarkMigrate(b *testing.B) {
	image := lab.SmallGuestImage(b)
	w := newTwoNodesWith(b, lab.StackOptions{})
	addrs := map[string]netip.Addr{"lab": w.other.Host.Peer, "hv2": w.other.Host.Addr}
	w.Migrations(map[string]*lab.Host{"lab": w.home, "hv2": w.other.Host}, addrs)
	addImage(b, w.Stack, "guest", image)
	addProfile(b, w.Stack, seedbed.Profile{
		Name: "busy", Image: "guest", VCPUs: 1, Memory: 512 * seedbed.MiB, UserData: []byte(busyData), Ready: seedbed.ReadyReport,
	})
	lab.Await(b, lab.Patience, "both nodes say how guests come to them", func() bool {
		all, err := w.API.Nodes(b.Context())
		return err == nil && len(all) == 2 && all[0].Report.Migration.URI != "" && all[1].Report.Migration.URI != ""
	})
	for _, name := range []string{"ours", "theirs"} {
		cli(b, w.Stack, "create", name, "--profile", "busy", "--node", "lab")
	}
	cli(b, w.Stack, "vm", "forget", "theirs", "-y")
	here, there := "lab", "hv2"
	virsh := map[string]func(...string) string{"lab": w.Virsh, "hv2": w.other.Virsh}
	for turn := -1; turn < turns; turn++ { // the first warms up
		var took [2]time.Duration
		steps := []func(){
			func() {
				began := time.Now()
				cli(b, w.Stack, "vm", "migrate", "ours", "--node", there, "--stay")
				took[0] = time.Since(began)
			},
			func() {
				began := time.Now()
				virsh[here]("migrate", "--live", "--p2p", "--tls", "--auto-converge", "--abort-on-error", "--unsafe", "--persistent",
					"--undefinesource", "theirs", fmt.Sprintf("qemu+tls://%s/system?pkipath=/etc/libvirt/seedbed", addrs[there]),
					"--migrateuri", fmt.Sprintf("tcp://%s", addrs[there]))
				took[1] = time.Since(began)
			},
		}
		if turn%2 == 0 {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			step()
		}
		var down [2]float64
		for n, name := range []string{"ours", "theirs"} {
			down[n] = downtime(b, virsh[there]("domjobinfo", "--completed", name))
		}
		here, there = there, here
		if turn >= 0 {
			fmt.Printf("LIFECYCLE migrate %.3f %.3f\n", took[0].Seconds(), took[1].Seconds())
			fmt.Printf("LIFECYCLE downtime %.3f %.3f\n", down[0], down[1])
		}
	}
}

var downtimeLine = regexp.MustCompile(`Total downtime:\s+([0-9.]+)\s+ms`)

// downtime is that of a migration that has ended, in ms.
func downtime(b *testing.B, info string) float64 {
	b.Helper()
	m := downtimeLine.FindStringSubmatch(info)
	if m == nil {
		b.Fatalf("libvirt does not say for how long the guest stood:\n%s", info)
	}
	ms, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return ms
}
