//go:build integration

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/lab"
)

// upgradeKey is a public key.
const upgradeKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEf5IHi19XJ+tIEKkHTi9pPaurNBFSUZYCUMTGnE2bCq admin@example.org"

// upgraded is an installation of seedbedd alone, without a worker: its jobs are accepted and wait.
type upgraded struct {
	t         *testing.T
	dir       string
	programs  string // the directory with the programs of the current release
	api       string
	hooks     string
	daemon    *lab.Process
	instances []upgradedInstance
	jobs      map[string]upgradedJob
}

type upgradedInstance struct {
	ID, Name, Profile string
	NICs              []struct{ MAC, Network, Addr string }
	Volumes           []struct {
		Name, Pool string
		Size       seedbed.Bytes
	}
}

type upgradedJob struct {
	ID, Kind, Subject, Instance string
	OnFailure                   string `json:"on_failure"`
}

// The previous release's real programs fill a database through their own API and command line.
// Today's programs find all of it, and work on with it. The previous program then works on with
// what is there: no migration since has raised min_program.
func TestUpgradeFromPreviousRelease(t *testing.T) {
	before, old := lab.Previous(t)
	today := lab.Programs(t)
	for name, store := range map[string]func(*upgraded) string{
		"sqlite": func(u *upgraded) string {
			return "{}"
		},
		"postgres": func(u *upgraded) string {
			s := lab.Postgres(u.t)
			return s.Store(s.Database(u.t, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := &upgraded{t: t, dir: lab.Dir(t), api: freeAddr(t), hooks: freeAddr(t)}
			u.write("seedbed.yaml", fmt.Sprintf(`node: lab
data_dir: %[1]s
run_dir: %[1]s/run
api: {listen: %[2]q}
webhook: {listen: %[3]q}
worker: {state: %[1]s/worker}
storage: {pools: [{name: default, type: dir, path: %[1]s/pool}]}
network: {prefix: 10.99.0.0/24}
store: %[4]s
`, u.dir, u.api, u.hooks, store(u)))
			u.start(old)
			if version := u.cli("version"); !strings.Contains(version, before.Version) {
				t.Errorf("version %q; expected %s", version, before.Version)
			}
			u.fill()
			u.stop()
			u.start(today)
			u.check()
			u.stop()
			u.start(old)
			u.goneBack()
			u.stop()
		})
	}
}

// fill makes one of each kind of object.
func (u *upgraded) fill() {
	u.write("cloud.yaml", "## template: seedbed\n#cloud-config\nhostname: ${vm.name}\n")
	u.write("first.py", "def main():\n    pass\n")
	u.write("key.pub", upgradeKey+"\n")
	u.cli("provisioner", "template", "system", "add", "small", "-u", "2", "-m", "1024")
	u.cli("provisioner", "template", "network", "add", "lan")
	u.cli("provisioner", "template", "network", "vni", "add", "lan", "default")
	u.cli("provisioner", "template", "storage", "add", "root")
	u.cli("provisioner", "template", "storage", "disk", "add", "root", "sda", "-p", "default", "-s", "2")
	u.cli("userdata", "add", "cloud", u.file("cloud.yaml"))
	u.cli("script", "add", "first", u.file("first.py"))
	u.cli("provisioner", "profile", "add", "composed", "-s", "small", "-n", "lan", "-t", "root", "-u", "cloud", "-x", "empty")
	u.cli("provisioner", "profile", "add", "scripted", "-s", "small", "-n", "lan", "-t", "root", "-u", "cloud", "-x", "first", "-a",
		"size=big")
	u.cli("profile", "add", "native", "--storage-template", "root", "--vcpus", "1", "--memory", "512MiB", "--network", "default",
		"--ssh-key", u.file("key.pub"), "--tag", "team=a", "--user-data", u.file("cloud.yaml"), "--on-failure", "retry:3:1s")
	u.cli("hook", "add", "ci", "--profile", "native")
	u.cli("endpoint", "add", "ops", "http://127.0.0.1:9/", "--event", "job.*", "--allow-private")
	u.cli("token", "add", "ann", "--role", "operator", "--max-instances", "5", "--out", u.file("token"))
	u.cli("create", "web1", "native", "--no-wait", "--on-failure", "keep")
	u.cli("create", "web2", "composed", "--no-wait")
	u.cli("create", "web3", "scripted", "--no-wait")
	u.cli("image", "add", "debian", u.file("debian.qcow2"), "--no-wait")
	u.send("web4")
	u.publish()
	u.fillLife()
	u.instances, u.jobs = u.read()
	if len(u.instances) != 4 || len(u.jobs) != 6 {
		u.t.Fatalf("%d instances and %d jobs; expected 4 and 6", len(u.instances), len(u.jobs))
	}
}

// check looks for all that fill has made, and uses it.
func (u *upgraded) check() {
	t := u.t
	instances, jobs := u.read()
	if diff := cmp.Diff(u.instances, instances); diff != "" {
		t.Errorf("instances (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(u.jobs, jobs); diff != "" {
		t.Errorf("jobs (-before +after):\n%s", diff)
	}
	native, composed, scripted := u.profile("native"), u.profile("composed"), u.profile("scripted")
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"native's vcpus", native["vcpus"], 1.0},
		{"native's memory", native["memory"], float64(512 * seedbed.MiB)},
		{"native's network", native["network"], "default"},
		{"native's keys", native["ssh_keys"], []any{upgradeKey}},
		{"native's tags", native["tags"], map[string]any{"team": "a"}},
		{"native's storage template", native["storage_template"], "root"},
		{"native's on_failure", native["on_failure"], "retry:3:1s"},
		{"native's script", native["script"], nil},
		{"composed's system template", composed["system_template"], "small"},
		{"composed's network template", composed["network_template"], "lan"},
		{"composed's storage template", composed["storage_template"], "root"},
		{"composed's document", composed["userdata_document"], "cloud"},
		{"composed's script", composed["script"], "empty"},
		{"scripted's script", scripted["script"], "first"},
		{"scripted's arguments", scripted["arguments"], []any{"size=big"}},
		{"document cloud", u.cli("userdata", "show", "cloud"), u.content("cloud.yaml")},
		{"script first", u.cli("script", "show", "first"), u.content("first.py")},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"provisioner", "template", "system", "list"}, []string{"small", "1GiB"}},
		{[]string{"provisioner", "template", "network", "list"}, []string{"lan", "default"}},
		{[]string{"provisioner", "template", "storage", "list"}, []string{"root", "sda"}},
		{[]string{"hook", "list"}, []string{"ci", "native"}},
		{[]string{"endpoint", "list"}, []string{"ops", "http://127.0.0.1:9/", "job.*"}},
		{[]string{"endpoint", "deliveries", "ops"}, []string{"job.accepted", "web1", "web2", "web3", "web4", "debian"}},
		{[]string{"token", "list"}, []string{"ann", "operator", "5 instances"}},
		{[]string{"image", "list"}, []string{"debian"}},
		// The token counts over TCP.
		{[]string{"--url", "http://" + u.api, "--token-file", u.file("token"), "vm", "list"}, []string{"web1"}},
	} {
		out := u.cli(c.args...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not show %q:\n%s", c.args, want, out)
			}
		}
	}
	// The engine takes up the jobs under a new epoch.
	lab.Await(t, lab.Patience, "the jobs are claimed again", func() bool {
		var jobs []struct {
			Subject string
			Epoch   int
		}
		u.decode(u.cli("job", "list", "-f", "json"), &jobs)
		for _, j := range jobs {
			if j.Subject == "web1" {
				return j.Epoch >= 2
			}
		}
		return false
	})
	u.send("web5") // with the secret that the previous release made
	for _, profile := range []string{"native", "composed", "scripted"} {
		u.cli("create", "new-"+profile, profile, "--no-wait")
	}
	u.cli("profile", "set", "native", "--vcpus", "2")
	if native := u.profile("native"); native["on_failure"] != "retry:3:1s" || native["vcpus"] != 2.0 {
		t.Errorf("the changed profile has %v vCPUs and on_failure %v", native["vcpus"], native["on_failure"])
	}
	if instances, _ := u.read(); len(instances) != 8 {
		t.Errorf("%d instances; expected 8", len(instances))
	}
	u.checkProjects()
	u.checkPublished()
	u.checkRoles()
	u.checkLife()
}

// goneBack expects that the previous release shows all that is there, and takes a change.
func (u *upgraded) goneBack() {
	if instances, _ := u.read(); len(instances) != 8 {
		u.t.Errorf("the previous release shows %d instances; expected 8", len(instances))
	}
	u.send("web6")
	u.cli("create", "back", "scripted", "--no-wait")
	if instances, _ := u.read(); len(instances) != 10 {
		u.t.Errorf("the previous release shows %d instances after two more; expected 10", len(instances))
	}
}

// start migrates the database and starts a release's seedbedd.
func (u *upgraded) start(programs string) {
	u.t.Helper()
	u.programs = programs
	program, config := filepath.Join(programs, lab.Seedbedd), u.file("seedbed.yaml")
	if strings.Contains(u.content("seedbed.yaml"), "driver: postgres") {
		if out, err := exec.Command(program, "migrate", "--config", config).CombinedOutput(); err != nil {
			u.t.Fatalf("migrate: %v\n%s", err, out)
		}
	}
	u.daemon = lab.Start(u.t, u.file("seedbedd.log"), program, "--config", config)
	lab.Await(u.t, lab.Patience, "seedbedd serves", func() bool {
		if !u.daemon.Alive() {
			u.t.Fatalf("seedbedd ended:\n%s", u.daemon.Tail())
		}
		resp, err := u.socket().Get("http://seedbed/api/v1/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (u *upgraded) stop() {
	u.t.Helper()
	u.daemon.Stop(syscall.SIGTERM)
	if status := u.daemon.Cmd.ProcessState.ExitCode(); status != 0 {
		u.t.Fatalf("seedbedd ended with status %d:\n%s", status, u.daemon.Tail())
	}
}

// cli runs the current release's seedbed and returns its standard output.
func (u *upgraded) cli(args ...string) string {
	u.t.Helper()
	out, errs, err := u.run(args...)
	if err != nil {
		u.t.Fatalf("seedbed %s: %v\n%s%s\n%s", strings.Join(args, " "), err, out, errs, u.daemon.Tail())
	}
	return out
}

// run runs the current release's seedbed and returns what it writes.
func (u *upgraded) run(args ...string) (stdout, stderr string, err error) {
	u.t.Helper()
	at := []string{"--socket", u.file("run/control.sock")}
	if args[0] == "--url" {
		at = nil
	}
	ctx, cancel := context.WithTimeout(u.t.Context(), lab.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(u.programs, "seedbed"), append(at, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+u.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// send asks for an instance by a webhook.
func (u *upgraded) send(name string) {
	u.t.Helper()
	u.cli("hook", "send", "ci", "--url", "http://"+u.hooks, "--data", `{"action":"create","name":"`+name+`","profile":"native"}`)
}

// read returns the instances and the jobs that made those that were there before the upgrade.
func (u *upgraded) read() (instances []upgradedInstance, jobs map[string]upgradedJob) {
	u.t.Helper()
	u.decode(u.cli("vm", "list", "-f", "json"), &instances)
	var all []upgradedJob
	u.decode(u.cli("job", "list", "-f", "json"), &all)
	jobs = map[string]upgradedJob{}
	for _, j := range all {
		jobs[j.Subject] = j
	}
	return instances, jobs
}

func (u *upgraded) profile(name string) (p map[string]any) {
	u.t.Helper()
	u.decode(u.cli("profile", "show", name, "-f", "json"), &p)
	return p
}

// socket returns a client that asks the control socket.
func (u *upgraded) socket() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", u.file("run/control.sock"))
		}}}
}

func (u *upgraded) decode(text string, v any) {
	u.t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		u.t.Fatalf("%v:\n%s", err, text)
	}
}

func (u *upgraded) file(name string) string { return filepath.Join(u.dir, name) }

func (u *upgraded) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(u.file(name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *upgraded) content(name string) string {
	u.t.Helper()
	text, err := os.ReadFile(u.file(name))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(text)
}

// freeAddr returns an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
}
