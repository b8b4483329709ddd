//go:build integration && libvirt

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

// fenceAgent is a fence agent that gives its task to the test, as a switched socket would have it: it asks for the end of a node by one
// file, and another says that the node is off.
const fenceAgent = `#!/bin/sh
while read -r line; do
	case $line in action=*) action=${line#action=} ;; port=*) port=${line#port=} ;; password=*) password=${line#password=} ;; esac
done
[ "$password" = "open sesame" ] || { echo "password $password is wrong"; exit 1; }
cd %q || exit 1
case $action in
off)
	: > "$port.ask"
	n=0
	while [ ! -e "$port.off" ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done ;;
esac
[ -e "$port.off" ] || exit 0
[ "$action" = off ] || exit 2
`

// TestFailover loses a node whose guest still runs, which is switched off and starts on the other node. Then the node freezes, and its
// agent only says that it is off: the guest of it that was started elsewhere is switched off there before the node does anything again.
func TestFailover(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	w := newTwoNodesWith(t, lab.StackOptions{Fencing: "{after: 40s}"})
	socket := w.withAgent(t)
	addImage(t, w.Stack, "guest", image)
	addImage(t, w.Stack, "blank", lab.BlankImage(t, w.Dir))
	addProfile(t, w.Stack, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	addProfile(t, w.Stack, seedbed.Profile{
		Name: "web", Image: "guest", VCPUs: 1, Memory: 128 * seedbed.MiB, DiskSize: seedbed.GiB,
		UserData: []byte(sentryData), Ready: seedbed.ReadyReport,
	})
	cli(t, w.Stack, "create", "stays", "--profile", "small", "--node", "hv2")
	cli(t, w.Stack, "create", "web1", "--profile", "web", "--node", "hv2", "--restart", "always")

	// What controls the node is gone, and what runs there is not.
	w.other.Kill(lab.Worker)
	w.other.Kill(lab.Metadata)
	w.libvirtd.Kill()
	w.await(t, "hv2", seedbed.NodeAway)
	if d := w.Domains(); len(d) != 0 {
		t.Fatalf("domains on lab before the fence: %v", d)
	}
	socket.await(t, "ask")
	w.signal(t, "web1", syscall.SIGKILL)
	w.signal(t, "stays", syscall.SIGKILL)
	if d := w.Domains(); len(d) != 0 {
		t.Errorf("domains on lab before hv2 was off: %v", d)
	}
	socket.write(t, "off")
	w.await(t, "hv2", seedbed.NodeFenced)
	w.moved(t, "web1")
	served := func() int {
		return strings.Count(cli(t, w.Stack, "vm", "log", "web1", "--raw", "-n", "2000"), "SEEDBED served 200")
	}
	lab.Await(t, 2*lab.Patience, "the guest is served on lab", func() bool { return served() >= 2 })
	if vm, err := w.API.Instance(t.Context(), "stays"); err != nil || vm.Node != "hv2" {
		t.Errorf("the instance without --restart is on %s, %v", vm.Node, err)
	}

	socket.remove(t)
	w.libvirtd = w.other.Host.Libvirt()
	w.other.Start(lab.Worker)
	w.other.Start(lab.Metadata)
	w.await(t, "hv2", seedbed.NodeReady)
	if d := w.other.Virsh("list", "--all", "--name"); strings.Contains(d, "web1") || !strings.Contains(d, "stays") {
		t.Errorf("domains on hv2, which was admitted: %s", d)
	}
	if sample.Long() {
		w.split(t, socket)
	}
	w.frozen(t, socket)
	for _, log := range []string{w.Log(lab.Seedbedd), w.Log(lab.Worker)} {
		if strings.Contains(log, "sesame") {
			t.Error("a log has the agent's password")
		}
	}
}

// split: the cable to hv2 is out for long, and its agent cannot switch it off. Its instance goes on there, and is not started elsewhere.
func (w *twoNodes) split(t *testing.T, socket powerSocket) {
	cli(t, w.Stack, "create", "web3", "--profile", "small", "--node", "hv2", "--restart", "always")
	pid := w.other.Host.Run("cat", "/run/libvirt/qemu/web3.pid")
	w.other.Host.Link(false)
	socket.await(t, "ask")
	lab.Await(t, lab.Patience, "the fence has failed", func() bool {
		return strings.Contains(cli(t, w.Stack, "node", "show", "hv2"), "fence failed")
	})
	if d := w.Domains(); slices.Contains(d, "web3") {
		t.Errorf("domains on lab, and hv2 is not off: %v", d)
	}
	w.other.Host.Link(true)
	w.await(t, "hv2", seedbed.NodeReady)
	if now := w.other.Host.Run("cat", "/run/libvirt/qemu/web3.pid"); now != pid || slices.Contains(w.Domains(), "web3") {
		t.Errorf("web3 is process %s of hv2, and was %s; domains on lab: %v", now, pid, w.Domains())
	}
	if vm, err := w.API.Instance(t.Context(), "web3"); err != nil || vm.Node != "hv2" || vm.State != seedbed.InstanceRunning {
		t.Errorf("web3 is %s on %s, %v", vm.State, vm.Node, err)
	}
	cli(t, w.Stack, "vm", "remove", "web3", "-y")
	if err := os.Remove(string(socket) + ".ask"); err != nil {
		t.Fatal(err)
	}
}

// frozen: hv2 stops and is not off, as its agent says. It goes on after its instance runs on lab.
func (w *twoNodes) frozen(t *testing.T, socket powerSocket) {
	cli(t, w.Stack, "create", "web2", "--profile", "small", "--node", "hv2", "--restart", "always")
	w.other.Signal(lab.Worker, syscall.SIGSTOP)
	w.libvirtd.Cmd.Process.Signal(syscall.SIGSTOP)
	w.signal(t, "web2", syscall.SIGSTOP)
	receipt, err := w.API.CreateInstance(t.Context(), seedbed.Request{Name: "half", Profile: "small", Node: "hv2"})
	if err != nil {
		t.Fatal(err)
	}
	w.unlock(t)
	socket.write(t, "off")
	cli(t, w.Stack, "node", "fence", "run", "hv2", "-y")
	w.moved(t, "web2")

	w.signal(t, "web2", syscall.SIGCONT)
	w.other.Signal(lab.Worker, syscall.SIGCONT)
	awaitHistory(t, w.Stack, string(receipt.Job), "the node was fenced (incarnation 2, and the worker was admitted to 1)")
	if n, err := w.API.Node(t.Context(), "hv2"); err != nil || n.State != seedbed.NodeFenced {
		t.Errorf("hv2 is %s, %v", n.State, err)
	}
	w.libvirtd.Cmd.Process.Signal(syscall.SIGCONT)
	w.await(t, "hv2", seedbed.NodeReady)
	if d := w.other.Virsh("list", "--all", "--name"); strings.Contains(d, "web2") {
		t.Errorf("web2 is left on hv2, which was admitted: %s", d)
	}
	w.moved(t, "web2")
	if j := waitJob(t, w.Stack, string(receipt.Job)); j.State != seedbed.JobSucceeded || !slices.Contains(w.other.Domains(), "half") {
		t.Errorf("job %s: %s; domains on hv2: %v", j.State, j.Error, w.other.Domains())
	}
}

// withAgent gives hv2 a fence agent.
func (w *twoNodes) withAgent(t testing.TB) powerSocket {
	t.Helper()
	dir, socket := filepath.Join(w.Dir, "fence.d"), powerSocket(filepath.Join(lab.Dir(t), "hv2"))
	secret := filepath.Join(w.Dir, "socket.secret")
	for _, err := range []error{
		os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "socket"), fmt.Appendf(nil, fenceAgent, filepath.Dir(string(socket))), 0o755),
		os.WriteFile(secret, []byte("open sesame\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cli(t, w.Stack, "node", "fence", "set", "hv2", "--agent", "socket", "--option", "port=hv2", "--secret-file", secret)
	if out := cli(t, w.Stack, "node", "fence", "check", "hv2"); !strings.Contains(out, "is on") {
		t.Errorf("node fence check: %s", out)
	}
	if out := cli(t, w.Stack, "node", "show", "hv2", "-f", "json"); strings.Contains(out, "sesame") {
		t.Errorf("the password is shown: %s", out)
	}
	return socket
}

// moved checks that an instance runs on lab.
func (w *twoNodes) moved(t *testing.T, name string) {
	t.Helper()
	lab.Await(t, lab.Patience, name+" runs on lab", func() bool {
		vm, err := w.API.Instance(t.Context(), name)
		return err == nil && vm.Node == "lab" && vm.State == seedbed.InstanceRunning && slices.Contains(w.Domains(), name)
	})
}

// signal sends a signal to the QEMU of a domain on hv2.
func (w *twoNodes) signal(t testing.TB, domain string, sig syscall.Signal) {
	t.Helper()
	w.other.Host.Run("sh", "-c", fmt.Sprintf("kill -%d $(cat /run/libvirt/qemu/%s.pid)", sig, domain))
}

// unlock gives the volumes new files, as a storage would take the locks from a client that says nothing.
func (w *twoNodes) unlock(t *testing.T) {
	t.Helper()
	for _, file := range w.files(t) {
		w.Run("sh", "-c", fmt.Sprintf("cp -a --sparse=always %[1]s %[1]s.new && mv %[1]s.new %[1]s", file))
	}
}

// powerSocket is the path of what stands for the power of a node, without the endings of its files.
type powerSocket string

func (s powerSocket) await(t testing.TB, what string) {
	t.Helper()
	lab.Await(t, lab.Patience, "the agent is to switch the node off", func() bool {
		_, err := os.Stat(string(s) + "." + what)
		return err == nil
	})
}

func (s powerSocket) write(t testing.TB, what string) {
	t.Helper()
	if err := os.WriteFile(string(s)+"."+what, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s powerSocket) remove(t testing.TB) {
	t.Helper()
	for _, what := range []string{"ask", "off"} {
		if err := os.Remove(string(s) + "." + what); err != nil {
			t.Fatal(err)
		}
	}
}
