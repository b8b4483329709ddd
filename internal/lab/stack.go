package lab

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	mu    sync.Mutex
	proc  map[string]*Process
}

var stacks atomic.Int32

// StackOptions vary a stack from the defaults.
type StackOptions struct {
	// Pool is the pool's directory; empty means one below the stack's own.
	Pool string
	// URI is libvirt's; empty means qemu:///system.
	URI string
	// Netns is the network namespace that the daemons run in; empty means the test's own.
	Netns string
	// Jobs and Cleanup are YAML flow mappings that replace the sections' defaults; empty keeps them.
	Jobs, Cleanup string
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
	if o.Pool == "" {
		o.Pool = filepath.Join(dir, "pools", "default")
	}
	if o.URI == "" {
		o.URI = "qemu:///system"
	}
	if o.Jobs == "" {
		o.Jobs = "{lease: 1s, poll: 50ms}"
	}
	if o.Cleanup == "" {
		o.Cleanup = "{}"
	}
	yaml := fmt.Sprintf(`node: lab
data_dir: %[1]s
run_dir: %[1]s/run
api: {listen: "127.0.0.1:%[2]d"}
webhook: {listen: "127.0.0.1:%[3]d"}
worker: {listen: "127.0.0.1:%[4]d"}
metadata: {health: "127.0.0.1:%[5]d"}
storage: {pools: [{name: default, type: dir, path: %[6]s}]}
libvirt: {uri: %[7]q, console_dir: %[1]s/console}
network: {bridge: %[8]s}
jobs: %[9]s
cleanup: %[10]s
`, dir, api, hooks, freePort(t), freePort(t), o.Pool, o.URI, s.Bridge, o.Jobs, o.Cleanup)
	if err := os.WriteFile(s.Config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
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

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
