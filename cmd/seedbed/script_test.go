package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"seedbed"
	"seedbed/internal/lab"
)

// tools is the directory of the built tool. This test binary would do as well, but takes twice as long to start, and scripts start
// it thousands of times.
var tools string

func runMain(m *testing.M) { testscript.Main(built{m}, map[string]func(){"xdg-open": browse}) }

// built runs tests that may build the tool.
type built struct{ testscript.TestingM }

func (b built) Run() int {
	var err error
	if tools, err = os.MkdirTemp("", "seedbed-tool"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(tools)
	return b.TestingM.Run()
}

// buildTool builds the tool once, as the Makefile does, whose compiled packages it shares.
var buildTool = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-trimpath", "-buildmode=pie", "-o", tools, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tool: %w: %s", err, out)
	}
	return nil
})

// TestScripts runs the tool as a user does. Each script has a world of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	p := scripts()
	p.Dir = "testdata"
	testscript.Run(t, p)
}

// scripts is how scripts run the tool, each in a world of its own.
func scripts() testscript.Params {
	return testscript.Params{
		Setup: func(env *testscript.Env) error {
			if err := buildTool(); err != nil {
				return err
			}
			w, err := newWorld(context.Background(), env.WorkDir)
			if err != nil {
				return err
			}
			env.Defer(w.stop)
			env.Values[worldOf] = w
			if err := os.WriteFile(filepath.Join(env.WorkDir, "token"), []byte(testToken+"\n"), 0o600); err != nil {
				return err
			}
			env.Setenv("PATH", tools+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("SEEDBED_SOCKET", filepath.Join(env.WorkDir, "c.sock"))
			env.Setenv("API", "http://"+w.apiAddr)
			env.Setenv("HOOKS", "http://"+w.hookAddr)
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			env.Defer(receiver.Close)
			env.Setenv("RECEIVER", receiver.URL+"/hook")
			env.Setenv("TOKEN", testToken)
			files := httptest.NewTLSServer(http.FileServer(http.Dir(env.WorkDir)))
			env.Defer(files.Close)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: files.Certificate().Raw})
			if err := os.WriteFile(filepath.Join(env.WorkDir, "files-ca.pem"), ca, 0o600); err != nil {
				return err
			}
			env.Setenv("FILES", files.URL)
			env.Setenv("SSL_CERT_FILE", filepath.Join(env.WorkDir, "files-ca.pem"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "until": until, "reported": reported, "sharing": sharing, "having": having},
	}
}

// sharing implements "sharing NODE...": the nodes report that they share the pool, and take guests that run.
func sharing(ts *testscript.TestScript, neg bool, nodes []string) {
	if neg || len(nodes) == 0 {
		ts.Fatalf("usage: sharing NODE...")
	}
	for _, name := range nodes {
		ts.Check(ts.Value(worldOf).(*world).db.NoteNode(context.Background(), name, seedbed.NodeReport{CPUs: 16, Memory: 64 * seedbed.GiB,
			MemoryFree: 48 * seedbed.GiB, Arch: "x86_64", Hypervisor: "QEMU 7.2.0 (kvm)",
			Pools:     []seedbed.PoolInfo{{Name: "default", Type: "dir", Shared: true, Size: 100 * seedbed.GiB, Free: 25 * seedbed.GiB}},
			Migration: seedbed.MigrationTarget{URI: "qemu+tls://" + name + "/system", TLS: true}}, "", time.Now()))
	}
}

// having implements "having NODE POOL...": the node reports that it has these pools.
func having(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: having NODE POOL...")
	}
	report := seedbed.NodeReport{CPUs: 16, Memory: 64 * seedbed.GiB, MemoryFree: 48 * seedbed.GiB, Arch: "x86_64",
		Hypervisor: "QEMU 7.2.0 (kvm)"}
	for _, pool := range args[1:] {
		report.Pools = append(report.Pools, seedbed.PoolInfo{Name: pool, Type: "dir", Size: 100 * seedbed.GiB, Free: 25 * seedbed.GiB})
	}
	ts.Check(ts.Value(worldOf).(*world).db.NoteNode(context.Background(), args[0], report, "", time.Now()))
}

// worldOf is the name of a script's world among its values.
const worldOf = "world"

// reported implements "reported NAME KEY", which has the guest of an instance report its host key.
func reported(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: reported NAME KEY")
	}
	ctx, w := context.Background(), ts.Value(worldOf).(*world)
	i, err := w.db.InstanceByName(ctx, seedbed.InstanceName{Project: seedbed.DefaultProject, Name: args[0]})
	ts.Check(err)
	ts.Check(w.db.AddGuestEvents(ctx, i.Node, "spool", []seedbed.GuestEvent{{Seq: 1, Instance: i.ID, Kind: seedbed.GuestReport, At: time.Now(),
		Fields: map[string]string{seedbed.HostKeyField: ts.ReadFile(args[1])}}}))
}

// until implements "until PATTERN COMMAND", which runs a command until its output matches. It may fail before.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND ARG...")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(lab.Patience); ; time.Sleep(10 * time.Millisecond) { // between two looks
		err := ts.Exec(args[1], args[2:]...)
		switch {
		case err == nil && pattern.MatchString(ts.ReadFile("stdout")):
			return
		case time.Now().After(deadline):
			ts.Fatalf("%s never printed %s", args[1], pattern)
		}
	}
}

// status implements "status N COMMAND", which runs a command that must end with that exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s ended with status %d, want %d", args[1], got, want)
	}
}
