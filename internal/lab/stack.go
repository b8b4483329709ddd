package lab

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seedbed/api/client"
)

// Stack is one Seedbed installation: the three real daemons on a directory, ports, sockets and a
// bridge of its own.
type Stack struct {
	Daemons
	Bridge string
	API    *client.Client // through the control socket
	URL    string         // of the API's TCP listener
	Hooks  string         // URL of the webhook listener
	Feed   string         // address for the guest planes of other hosts

	cluster netip.Addr // StackOptions.Cluster
	shared  string     // configuration of all hosts
	control string     // configuration of control hosts
	webhook string     // more of its section
	more    string     // of the section network
	uri     string
}

var stacks atomic.Int32

// StackOptions vary a stack from the defaults.
type StackOptions struct {
	// Pool is the directory of the pool, unless Storage names others; empty means one below the
	// stack's own.
	Pool string
	// URI is libvirt's; empty means qemu:///system.
	URI string
	// Netns is the network namespace that the daemons run in; empty means the test's own.
	Netns string
	// Host is the host that the daemons run on, in place of a Netns; nil means this machine itself.
	Host *Host
	// Cluster is the address on which seedbedd serves the guest planes of other hosts; unset for
	// none.
	Cluster netip.Addr
	// Store, Storage, Coordination, Jobs, Cleanup, Scripts and Fencing are YAML flow mappings that
	// replace the sections' defaults; empty keeps them. A store is migrated before the daemons start.
	Store, Storage, Coordination, Jobs, Cleanup, Scripts, Fencing string
	// Webhook and Network hold further members of the sections, as in a YAML flow mapping.
	Webhook, Network string
}

// NewStack starts the daemons and waits until the API answers. With the test it stops them and
// removes bridge, filters and files; the test removes its own instances.
func NewStack(t testing.TB, o StackOptions) *Stack {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test starts daemons, bridges and virtual machines: run it as root")
	}
	dir, addr := Dir(t), "127.0.0.1"
	var at place = namespace{t, o.Netns}
	if o.Host != nil {
		at, addr = o.Host, o.Host.Addr.String()
	}
	api, hooks := fmt.Sprintf("%s:%d", addr, FreePort(t)), fmt.Sprintf("%s:%d", addr, FreePort(t))
	s := &Stack{
		Daemons: newDaemons(t, at, dir, Seedbedd, Worker, Metadata),
		Bridge:  fmt.Sprintf("sblab%d", stacks.Add(1)),
		URL:     "http://" + api,
		Hooks:   "http://" + hooks,
	}
	o.Pool = cmp.Or(o.Pool, filepath.Join(dir, "pools", "default"))
	s.uri, s.webhook, s.more = cmp.Or(o.URI, "qemu:///system"), o.Webhook, o.Network
	s.shared = fmt.Sprintf("storage: %s\n", cmp.Or(o.Storage, fmt.Sprintf("{pools: [{name: default, type: dir, path: %s}]}", o.Pool)))
	s.control = fmt.Sprintf("store: %s\ncoordination: %s\njobs: %s\ncleanup: %s\nscripts: %s\nfencing: %s\n", cmp.Or(o.Store, "{}"),
		cmp.Or(o.Coordination, "{}"),
		cmp.Or(o.Jobs, "{lease: 1s, poll: 50ms}"), cmp.Or(o.Cleanup, "{}"), cmp.Or(o.Scripts, "{}"),
		cmp.Or(o.Fencing, "{}"))
	if s.cluster = o.Cluster; s.cluster.IsValid() {
		s.control += s.authority(o.Cluster)
	}
	s.configure(s.Config, dir, api, hooks,
		fmt.Sprintf("{listen: \"127.0.0.1:%d\", state: %s/worker, data_dir: %[2]s/known, spool: %[2]s/spool, hooks_dir: %[2]s/hooks.d, "+
			"fence_dir: %[2]s/fence.d}", FreePort(t), dir))
	if o.Store != "" {
		s.Run(filepath.Join(Programs(t), Seedbedd), "migrate", "--config", s.Config)
	}
	socket := filepath.Join(dir, "run", "control.sock")
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	s.API = c
	t.Cleanup(s.takeDown)
	for _, name := range s.names {
		s.Start(name)
	}
	s.AwaitAPI()
	return s
}

// network is the section network, with the host's address for overlays if there is one.
func (s *Stack) network(addr netip.Addr) string {
	if !addr.IsValid() {
		return fmt.Sprintf("network: {bridge: %s, %s}\n", s.Bridge, s.more)
	}
	return fmt.Sprintf("network: {bridge: %s, address: %q, %s}\n", s.Bridge, addr, s.more)
}

// configure writes the configuration of a control host: what all have, and what is below dir.
func (s *Stack) configure(file, dir, api, hooks, worker string) {
	s.t.Helper()
	s.write(file, s.shared+s.network(s.cluster)+s.control+fmt.Sprintf(`node: lab
data_dir: %[1]s
run_dir: %[1]s/run
api: {listen: %[2]q}
webhook: {listen: %[3]q, %[7]s}
metadata: {health: "127.0.0.1:%[4]d"}
libvirt: {uri: %[5]q, console_dir: %[1]s/console, cdrom_dir: %[1]s/cdrom%[8]s}
worker: %[6]s
`, dir, api, hooks, FreePort(s.t), s.uri, worker, s.webhook, migration(s.cluster)))
}

func (s *Stack) write(file, text string) {
	s.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// AddControl starts a second seedbedd on the stack's store, coordination and worker, as another
// control host has, and waits until it serves.
func (s *Stack) AddControl() *Process {
	s.t.Helper()
	dir := filepath.Join(s.Dir, "second")
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(dir, "seedbed.yaml")
	s.configure(file, dir, fmt.Sprintf("127.0.0.1:%d", FreePort(s.t)), fmt.Sprintf("127.0.0.1:%d", FreePort(s.t)),
		fmt.Sprintf("{socket: %s/run/worker.sock}", s.Dir))
	p := s.at.start(filepath.Join(dir, Seedbedd+".log"), filepath.Join(Programs(s.t), Seedbedd), "--config", file)
	Await(s.t, Patience, "the second seedbedd serves", func() bool {
		if !p.Alive() {
			s.t.Fatalf("the second seedbedd ended:\n%s", p.Tail())
		}
		return strings.Contains(p.Tail(), "msg=listening")
	})
	return p
}

// AwaitAPI waits until seedbedd answers.
func (s *Stack) AwaitAPI() {
	s.t.Helper()
	Await(s.t, Patience, "seedbedd answers", func() bool {
		if !s.process(Seedbedd).Alive() {
			s.t.Fatalf("seedbedd ended:\n%s", s.process(Seedbedd).Tail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := s.API.Health(ctx)
		return err == nil
	})
}

// CLI runs the seedbed command against the stack and returns its output and exit status.
func (s *Stack) CLI(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	return s.CLIWith(nil, args...)
}

// CLIWith is CLI with a standard input.
func (s *Stack) CLIWith(input io.Reader, args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(Programs(s.t), "seedbed"),
		append([]string{"--socket", filepath.Join(s.Dir, "run", "control.sock")}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.Dir)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (s *Stack) takeDown() {
	s.stop()
	if _, vanishes := s.at.(*Host); vanishes {
		return
	}
	dropDomains(s.t, s.Dir)
	if out, err := s.Try(filepath.Join(Programs(s.t), Metadata), "--config", s.Config, "--cleanup", "--force"); err != nil {
		s.t.Errorf("%s --cleanup: %v\n%s", Metadata, err, out)
	}
}
