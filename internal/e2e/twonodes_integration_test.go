//go:build integration && libvirt

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// sentryData has a guest ask its metadata service without end, and say on the
// console what it was answered.
const sentryData = `#!/bin/sh
while sleep 1; do
	wget -q -O /dev/null http://169.254.169.254/latest/meta-data/local-hostname && echo "SEEDBED served 200"
done &
`

// stageTime is how long the stages may take that a link holds up that stays cut.
const stageTime = 4 * time.Second

// twoNodes is an installation with a hypervisor beside the control host's own:
// they share a directory pool, and nothing but a cable else.
type twoNodes struct {
	*lab.Stack
	home     *lab.Host
	other    *lab.Node
	libvirtd *lab.Process // the other's
	pool     string
}

func newTwoNodes(t *testing.T) *twoNodes {
	t.Helper()
	return newTwoNodesWith(t, lab.StackOptions{})
}

// newTwoNodesWith is newTwoNodes with further options.
func newTwoNodesWith(t testing.TB, o lab.StackOptions) *twoNodes {
	t.Helper()
	home := lab.NewHost(t)
	far := home.Neighbour()
	home.Libvirt()
	w := &twoNodes{home: home, libvirtd: far.Libvirt(), pool: filepath.Join(lab.Dir(t), "pool")}
	o.Host, o.Cluster, o.Jobs = home, far.Peer, lasting
	o.Storage = fmt.Sprintf("{pools: [{name: default, type: dir, path: %q, shared: true}]}", w.pool)
	w.Stack = lab.NewStack(t, o)
	w.other = w.AddNode(far, "hv2")
	w.await(t, "hv2", seedbed.NodeReady)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("=== %s\n%s", w.other.Name, w.other.Logs())
		}
	})
	return w
}

// TestTwoNodes places a real guest on another host than the control host's,
// kills what is there and cuts the link to it, and takes it all away from here.
func TestTwoNodes(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	w := newTwoNodes(t)
	addImage(t, w.Stack, "blank", lab.BlankImage(t, w.Dir))
	addImage(t, w.Stack, "guest", image)
	addProfile(t, w.Stack, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	addProfile(t, w.Stack, seedbed.Profile{
		Name: "web", Image: "guest", VCPUs: 1, Memory: 128 * seedbed.MiB, DiskSize: seedbed.GiB,
		UserData: []byte(sentryData), Ready: seedbed.ReadyReport,
	})
	forge := newSender(t, w.Stack, wire.HookRequest{Name: "forge", Profiles: []string{"web"}})

	job := w.placed(t, forge)
	t.Run("strangers", w.strangers)
	t.Run("interrupted", w.interrupted)
	w.booted(t, job)
	t.Run("shared network", w.shared)
	t.Run("overlay", w.overlay)
	t.Run("overlays that are peers", w.peered)
	t.Run("away", w.away)
	t.Run("operated", w.operated)
}

// await waits until a node is in that state.
func (w *twoNodes) await(t testing.TB, name string, state seedbed.NodeState) {
	t.Helper()
	lab.Await(t, lab.Patience, "node "+name+" is "+string(state), func() bool {
		n, err := w.API.Node(t.Context(), name)
		return err == nil && n.State == state
	})
}

// plan asks what would be made, and is why each node would have it or not, the chosen one first.
func (w *twoNodes) plan(t *testing.T, args ...string) []seedbed.Placement {
	t.Helper()
	var p seedbed.Plan
	out := cli(t, w.Stack, append([]string{"create", "planned", "--profile", "small", "--dry-run", "-f", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &p); err != nil || len(p.Placement) != 2 || !p.Placement[0].Chosen ||
		p.Placement[0].Node != p.Node || p.Placement[1].Chosen {
		t.Fatalf("plan: %s, %v; want both nodes, one of them chosen", out, err)
	}
	return p.Placement
}

// placed: the plan explains itself, also for a node that takes nothing now, and
// a webhook goes where there is room.
func (w *twoNodes) placed(t *testing.T, forge sender) (job string) {
	t.Helper()
	if p := w.plan(t, "--node", "hv2"); p[0].Node != "hv2" || p[0].Reason == "" || !strings.Contains(p[1].Refused, "asked for") {
		t.Errorf("with --node: %+v", p)
	}
	cli(t, w.Stack, "node", "cordon", "lab")
	lab.Await(t, lab.Patience, "the plan knows that lab is cordoned", func() bool { // it goes by what was so a second ago
		p := w.plan(t)
		return p[0].Node == "hv2" && strings.Contains(p[1].Refused, "cordoned")
	})
	if _, stderr, status := w.CLI("create", "nowhere", "--profile", "small", "--node", "lab"); status == 0 ||
		!strings.Contains(stderr, "seedbed node uncordon lab") {
		t.Errorf("on a node that is cordoned: status %d: %s", status, stderr)
	}
	a := forge.post(t, "evt_guest2", time.Now(), `{"action":"create","name":"guest2","profile":"web"}`)
	if a.Status != 202 {
		t.Fatalf("answer: %+v", a)
	}
	cli(t, w.Stack, "node", "uncordon", "lab")
	lab.Await(t, lab.Patience, "the guest has been started", func() bool {
		j, err := w.API.Job(t.Context(), a.Job)
		return err == nil && j.Job.Stage == "ready"
	})
	if d := w.other.Domains(); len(d) != 1 || d[0] != "guest2" || len(w.Domains()) != 0 {
		t.Errorf("hv2 has the domains %v, and lab %v", d, w.Domains())
	}
	return a.Job
}

// interrupted: the worker dies and the link is cut while a domain is defined;
// the job waits, and ends well with both back.
func (w *twoNodes) interrupted(t *testing.T) {
	id := w.hang(t, "patient", func() {
		w.other.Kill(lab.Worker)
		w.other.Host.Link(false)
	})
	awaitHistory(t, w.Stack, id, "unreachable; trying again")
	w.other.Start(lab.Worker)
	w.other.Host.Link(true)
	job := waitJob(t, w.Stack, id)
	if d := w.other.Domains(); job.State != seedbed.JobSucceeded || job.Epoch != 1 || !slices.Contains(d, "patient") {
		t.Fatalf("%s in epoch %d: %s; domains %v", job.State, job.Epoch, job.Error, d)
	}
	removeInstance(t, w.Stack, "patient")
	w.gone(t, "patient")
}

// hang creates an instance on the other host, strikes while libvirtd there is
// asked to define its domain, and lets that go on afterwards.
func (w *twoNodes) hang(t *testing.T, name string, strike func()) (job string) {
	t.Helper()
	w.libvirtd.Cmd.Process.Signal(syscall.SIGSTOP)
	defer w.libvirtd.Cmd.Process.Signal(syscall.SIGCONT)
	receipt, err := w.API.CreateInstance(t.Context(), seedbed.Request{Name: name, Profile: "small", Node: "hv2"})
	if err != nil {
		t.Fatal(err)
	}
	if reached := awaitStage(t, w.Stack, string(receipt.Job), "define"); reached != "define" {
		t.Fatalf("the job is at %s", reached)
	}
	strike()
	return string(receipt.Job)
}

// hasten gives the stages of jobs stageTime, those that are under way too. On a busy computer that
// is too little for what is to succeed.
func (w *twoNodes) hasten(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	short := fmt.Sprintf("{lease: 1m, poll: 50ms, stage_timeout: {volumes: %[1]s, define: %[1]s}}", stageTime)
	if err := os.WriteFile(w.Config, []byte(strings.Replace(string(text), lasting, short, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Stop(lab.Seedbedd)
	w.Start(lab.Seedbedd)
	w.AwaitAPI()
}

// gone checks that nothing of an instance is on the other host.
func (w *twoNodes) gone(t *testing.T, name string) {
	t.Helper()
	if d := w.other.Domains(); slices.Contains(d, name) {
		t.Errorf("domain %s is left", name)
	}
	if _, err := w.API.Instance(t.Context(), name); seedbed.KindName(err) != "not_found" {
		t.Errorf("instance %s: %v, want not found", name, err)
	}
	if files := w.files(t); len(files) > 1 {
		t.Errorf("volumes beside guest2's are left: %v", files)
	}
}

// files are the volumes in the pool.
func (w *twoNodes) files(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.pool, "volumes", "*.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// booted: the guest has configured itself from its own host.
func (w *twoNodes) booted(t *testing.T, job string) {
	t.Helper()
	if j := waitJob(t, w.Stack, job); j.State != seedbed.JobSucceeded {
		console, _ := w.API.Console(t.Context(), "guest2", 8*seedbed.KiB)
		t.Fatalf("job %s: %s\n%s", j.State, j.Error, console)
	}
	vm, err := w.API.Instance(t.Context(), "guest2")
	if err != nil || vm.Node != "hv2" || vm.State != seedbed.InstanceRunning || vm.Reported.IsZero() {
		t.Errorf("instance %+v, %v", vm, err)
	}
	if out := cli(t, w.Stack, "vm", "show", "guest2"); !strings.Contains(out, "hv2") {
		t.Errorf("vm show does not name the node:\n%s", out)
	}
	lab.Await(t, lab.Patience, "the console of the other host shows that the guest is served", func() bool {
		return strings.Contains(cli(t, w.Stack, "vm", "log", "guest2", "--raw", "-n", "20"), "SEEDBED served 200")
	})
}

// served is how often the guest has been answered, as its host has it on disk.
func (w *twoNodes) served(t *testing.T) int {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(w.other.Dir, "console", "*"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(text), "SEEDBED served 200")
	}
	return n
}

// away: with the link cut for longer than a stage may take, the job is undone as
// far as can be without that host, its guest goes on being served, and what is
// left there goes once the host is back.
func (w *twoNodes) away(t *testing.T) {
	id := w.hang(t, "lost", func() {
		w.other.Host.Link(false)
		w.hasten(t)
	})
	before := w.served(t)
	w.await(t, "hv2", seedbed.NodeAway)
	job := waitJob(t, w.Stack, id)
	if job.State != seedbed.JobIncomplete || !strings.Contains(job.Error, "define") {
		t.Errorf("%s: %s; want what could not be undone", job.State, job.Error)
	}
	if vm, err := w.API.Instance(t.Context(), "lost"); err != nil || vm.State != seedbed.InstanceFailed {
		t.Errorf("instance %s, %v", vm.State, err)
	}
	if p := w.plan(t); p[0].Node != "lab" || p[1].Node != "hv2" || p[1].Refused != "" || !strings.Contains(p[1].Reason, "does not answer") {
		t.Errorf("with a node that is away: %+v", p)
	}
	lab.Await(t, lab.Patience, "the guest is served without the control host", func() bool { return w.served(t) > before+3 })
	w.other.Host.Link(true)
	w.await(t, "hv2", seedbed.NodeReady)
	removeInstance(t, w.Stack, "lost")
	w.gone(t, "lost")
}

// operated: the guest is switched and removed by the control host's command line.
func (w *twoNodes) operated(t *testing.T) {
	state := func(want string) {
		t.Helper()
		if got := w.other.Virsh("domstate", "guest2"); got != want {
			t.Errorf("the domain is %s, want %s", got, want)
		}
	}
	boot := func() string { return w.other.Virsh("domid", "guest2") }
	first := boot()
	cli(t, w.Stack, "vm", "reboot", "guest2")
	if state("running"); boot() == first {
		t.Error("the guest was not started anew")
	}
	cli(t, w.Stack, "vm", "stop", "guest2", "--force")
	state("shut off")
	cli(t, w.Stack, "vm", "start", "guest2")
	state("running")
	cli(t, w.Stack, "vm", "remove", "guest2", "-y")
	w.gone(t, "guest2")
	if ports := w.other.Run("ls", filepath.Join("/sys/class/net", w.Bridge, "brif")); ports != "" {
		t.Errorf("taps are left: %s", ports)
	}
	if files := w.files(t); len(files) != 0 {
		t.Errorf("volumes are left: %v", files)
	}
}
