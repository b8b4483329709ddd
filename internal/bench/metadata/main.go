// Command metadata measures the guest plane: seedbed-metadata as it is
// installed, on a bridge that it made itself, asked by guests in network
// namespaces, beside a server that answers with a constant. docs/reference/benchmarks.md
// says what each figure is. It needs root and changes nothing outside of its
// own namespaces but a few limits of the host (hostLimits), which it puts back.
//
//	metadata -daemon bin/seedbed-metadata             all figures
//	metadata -daemon bin/seedbed-metadata -profile F  a CPU profile of the same load, in F
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// inner is the environment variable that selects the part that the process plays.
const inner = "SEEDBED_BENCH"

// The parts: the one that was called, the one that measures, in a network
// namespace of its own, and the constant server.
const (
	partOuter    = ""
	partMeasure  = "measure"
	partConstant = "constant"
)

// loads are what a profile can be made of.
var loads = []string{"keepalive", "token", "newconn", "userdata", "storm"}

// setup is what the flags say.
type setup struct {
	daemon  string // the program to measure
	profile string // where a CPU profile is to go; empty measures the figures
	load    string // the one load of the profile; empty is all
	runs    int
}

func main() {
	if err := run(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var s setup
	flag.StringVar(&s.daemon, "daemon", "bin/seedbed-metadata", "the `program` to measure")
	flag.StringVar(&s.profile, "profile", "", "write a CPU profile of the load to this `file` instead of measuring")
	flag.StringVar(&s.load, "load", "", "with -profile, make only this `load`: "+strings.Join(loads, ", "))
	flag.IntVar(&s.runs, "runs", 3, "how often each figure is measured")
	flag.Parse()
	if s.load != "" && !slices.Contains(loads, s.load) {
		return fmt.Errorf("load %q is unknown: expected one of %s", s.load, strings.Join(loads, ", "))
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	switch os.Getenv(inner) {
	case partConstant:
		return serveConstant(ctx)
	case partMeasure:
		return measure(ctx, s)
	}
	return outer(ctx)
}

// outer runs the part that measures in a network namespace of its own. That
// dies with this process, and what it made with it.
func outer(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for network namespaces")
	}
	restore, err := raiseLimits()
	if err != nil {
		return err
	}
	defer restore()
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inner+"="+partMeasure)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		cmd.Process.Signal(unix.SIGTERM) // Ctrl-C reaches it as well; twice is once
		err = <-ended
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
