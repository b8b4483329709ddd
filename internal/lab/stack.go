package lab

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"seedbed/api/client"
)

// The daemons of a stack.
const (
	Seedbedd = "seedbedd"
	Worker   = "seedbed-worker"
	Metadata = "seedbed-metadata"
)

var daemons = []string{Seedbedd, Worker, Metadata}

// Stack is one Seedbed installation: the three real daemons on a directory,
// ports, sockets and a bridge of its own.
type Stack struct {
	Dir    string // data directory; everything of the stack is below it
	Config string // its configuration file
	Bridge string
	API    *client.Client // through the control socket
	URL    string         // of the API's TCP listener
	Hooks  string         // URL of the webhook listener

	t     testing.TB
	netns string
	// shared is the configuration of all control hosts.
	shared string
	mu     sync.Mutex
	proc   map[string]*Process
}

var stacks atomic.Int32

// StackOptions vary a stack from the defaults.
type StackOptions struct {
	// Pool is the directory of the pool, unless Storage names others; empty means one below the stack's own.
	Pool string
	// URI is libvirt's; empty means qemu:///system.
	URI string
	// Netns is the network namespace that the daemons run in; empty means the test's own.
	Netns string
	// Store, Storage, Coordination, Jobs and Cleanup are YAML flow mappings that replace the sections'
	// defaults; empty keeps them. A store is migrated before the daemons start.
	Store, Storage, Coordination, Jobs, Cleanup, Scripts string
}

// NewStack starts the daemons and waits until the API answers. With the test
// it stops them and removes bridge, filters and files; the test removes its
// own instances.
func NewStack(t testing.TB, o StackOptions) *Stack {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test starts daemons, bridges and virtual machines: run it as root")
	}
	dir := Dir(t)
	api, hooks := freePort(t), freePort(t)
	s := &Stack{
		Dir:    dir,
		Config: filepath.Join(dir, "seedbed.yaml"),
		Bridge: fmt.Sprintf("sblab%d", stacks.Add(1)),
		URL:    fmt.Sprintf("http://127.0.0.1:%d", api),
		Hooks:  fmt.Sprintf("http://127.0.0.1:%d", hooks),
		t:      t,
		netns:  o.Netns,
		proc:   map[string]*Process{},
	}
	o.Pool = cmp.Or(o.Pool, filepath.Join(dir, "pools", "default"))
	s.shared = fmt.Sprintf(`node: lab
store: %s
storage: %s
coordination: %s
libvirt: {uri: %q, console_dir: %s/console}
network: {bridge: %s}
jobs: %s
cleanup: %s
scripts: %s
`, cmp.Or(o.Store, "{}"), cmp.Or(o.Storage, fmt.Sprintf("{pools: [{name: default, type: dir, path: %s}]}", o.Pool)), cmp.Or(o.Coordination, "{}"),
		cmp.Or(o.URI, "qemu:///system"), dir, s.Bridge, cmp.Or(o.Jobs, "{lease: 1s, poll: 50ms}"), cmp.Or(o.Cleanup, "{}"), cmp.Or(o.Scripts, "{}"))
	s.configure(s.Config, dir, api, hooks, fmt.Sprintf("{listen: \"127.0.0.1:%d\", state: %s/worker, spool: %[2]s/spool}", freePort(t), dir))
	if o.Store != "" {
		migrate := s.command(Seedbedd, "migrate", "--config", s.Config)
		if out, err := exec.Command(migrate[0], migrate[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("seedbedd migrate: %v\n%s", err, out)
		}
	}
	socket := filepath.Join(dir, "run", "control.sock")
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	s.API = c
	t.Cleanup(s.takeDown)
	for _, name := range daemons {
		s.Start(name)
	}
	s.AwaitAPI()
	return s
}

// configure writes a configuration: what the stack's hosts share, and what is below dir.
func (s *Stack) configure(file, dir string, api, hooks int, worker string) {
	s.t.Helper()
	own := fmt.Sprintf(`data_dir: %[1]s
run_dir: %[1]s/run
api: {listen: "127.0.0.1:%[2]d"}
webhook: {listen: "127.0.0.1:%[3]d"}
metadata: {health: "127.0.0.1:%[4]d"}
worker: %[5]s
`, dir, api, hooks, freePort(s.t), worker)
	if err := os.WriteFile(file, []byte(s.shared+own), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// AddControl starts a second seedbedd on the stack's store, coordination and
// worker, as another control host has, and waits until it serves.
func (s *Stack) AddControl() *Process {
	s.t.Helper()
	dir := filepath.Join(s.Dir, "second")
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(dir, "seedbed.yaml")
	s.configure(file, dir, freePort(s.t), freePort(s.t), fmt.Sprintf("{socket: %s/run/worker.sock}", s.Dir))
	argv := s.command(Seedbedd, "--config", file)
	p := Start(s.t, filepath.Join(dir, Seedbedd+".log"), argv[0], argv[1:]...)
	Await(s.t, 20*time.Second, "the second seedbedd serves", func() bool {
		if !p.Alive() {
			s.t.Fatalf("the second seedbedd ended:\n%s", p.Tail())
		}
		return strings.Contains(p.Tail(), "msg=listening")
	})
	return p
}

// Log is all that one daemon has written.
func (s *Stack) Log(name string) string { return s.process(name).Output() }

// AwaitAPI waits until seedbedd answers.
func (s *Stack) AwaitAPI() {
	s.t.Helper()
	Await(s.t, 20*time.Second, "seedbedd answers", func() bool {
		if !s.process(Seedbedd).Alive() {
			s.t.Fatalf("seedbedd ended:\n%s", s.process(Seedbedd).Tail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := s.API.Health(ctx)
		return err == nil
	})
}

// Start starts one daemon of the stack.
func (s *Stack) Start(name string) {
	s.t.Helper()
	argv := s.command(name, "--config", s.Config)
	p := Start(s.t, filepath.Join(s.Dir, name+".log"), argv[0], argv[1:]...)
	s.mu.Lock()
	s.proc[name] = p
	s.mu.Unlock()
}

// Kill ends one daemon with SIGKILL.
func (s *Stack) Kill(name string) { s.process(name).Kill() }

// Signal sends a signal to one daemon.
func (s *Stack) Signal(name string, sig syscall.Signal) { s.process(name).Cmd.Process.Signal(sig) }

// Logs are the ends of the daemons' outputs, for messages.
func (s *Stack) Logs() string {
	var all string
	for _, name := range daemons {
		all += "--- " + name + "\n" + s.process(name).Tail()
	}
	return all
}

// CLI runs the seedbed command against the stack and returns its output and exit status.
func (s *Stack) CLI(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(Programs(s.t), "seedbed"),
		append([]string{"--socket", filepath.Join(s.Dir, "run", "control.sock")}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.Dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (s *Stack) process(name string) *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc[name]
}

func (s *Stack) takeDown() {
	if s.t.Failed() {
		s.t.Log(s.Logs())
	}
	for _, name := range daemons {
		if p := s.process(name); p != nil {
			p.Stop(syscall.SIGTERM)
		}
	}
	dropDomains(s.t, s.Dir)
	argv := s.command(Metadata, "--config", s.Config, "--cleanup", "--force")
	cleanup := exec.Command(argv[0], argv[1:]...)
	if out, err := cleanup.CombinedOutput(); err != nil {
		s.t.Errorf("%s --cleanup: %v\n%s", Metadata, err, out)
	}
}

// command is the argument list of one of the programs, in the stack's namespace.
func (s *Stack) command(name string, args ...string) []string {
	argv := append([]string{filepath.Join(Programs(s.t), name)}, args...)
	if s.netns != "" {
		argv = append([]string{"ip", "netns", "exec", s.netns}, argv...)
	}
	return argv
}

func freePort(t T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
