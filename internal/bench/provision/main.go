//go:build ceph && libvirt

// Command provision measures how much the engine adds to what an instance takes:
// on a real Ceph cluster and the real libvirt, with the worker as it is
// installed, beside the same librbd and libvirt calls made by hand, in one run.
// docs/reference/benchmarks.md says what each figure is. It needs root and libvirtd, and
// removes what it made.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"seedbed/internal/bench"
	"seedbed/internal/lab"
)

// setup is what the flags say.
type setup struct {
	worker       string
	runs, bursts int
	atOnce       int
	imports      int
	backups      int
	mib, bigMiB  int
	only         string
}

func main() {
	var s setup
	flag.StringVar(&s.worker, "worker", "bin/bench/seedbed-worker", "the worker, as it is installed")
	flag.IntVar(&s.runs, "runs", 7, "instances that are made one by one, on each side")
	flag.IntVar(&s.bursts, "bursts", 3, "bursts on each side")
	flag.IntVar(&s.atOnce, "burst", 50, "instances of a burst")
	flag.IntVar(&s.imports, "imports", 3, "imports on each side")
	flag.IntVar(&s.backups, "backups", 3, "backups, and restores, on each side")
	flag.IntVar(&s.mib, "import-mib", 512, "size of the small imported disk in MiB; the usual one is four times as large")
	flag.IntVar(&s.bigMiB, "big-mib", 4096, "size of the disk whose import the memory is measured with, in MiB")
	flag.StringVar(&s.only, "only", "",
		"create, cancel, burst, jobs or import: only that part; lifecycle, or snapshot, attach, backup, migrate or failover: what comes later")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	err := bench.Run(func(l *bench.Lab) error { return measure(ctx, s, l, os.Stdout) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench provision:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, s setup, l *bench.Lab, out io.Writer) error {
	var figures []bench.Figure
	for _, part := range []struct {
		group, name string
		run         func(context.Context) ([]bench.Figure, error)
	}{{making, "jobs", engineJobs}, {lifecycle, "migrate", migrate}, {lifecycle, "failover", failover}} {
		if !s.wants(part.group, part.name) {
			continue
		}
		more, err := part.run(ctx)
		if err != nil {
			return err
		}
		figures = append(figures, more...)
		if s.only == part.name {
			return bench.Report(out, figures)
		}
	}
	lab.Libvirt(l)
	c := lab.Ceph(l)
	h, err := openHand(c, c.Pool(l, "seedbed-bench"))
	if err != nil {
		return err
	}
	l.Cleanup(h.close)
	i, err := install(ctx, s, l, c, h)
	if err != nil {
		return err
	}
	l.Cleanup(i.close)
	for _, part := range []struct {
		group, name string
		run         func(context.Context, setup, *installation, *hand) ([]bench.Figure, error)
	}{{making, "create", createOverhead}, {making, "cancel", cancel}, {making, "burst", burst}, {making, "import", imports},
		{lifecycle, "snapshot", snapshots}, {lifecycle, "attach", attach},
		{lifecycle, "backup", backups}} {
		if !s.wants(part.group, part.name) {
			continue
		}
		more, err := part.run(ctx, s, i, h)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		figures = append(figures, more...)
	}
	return bench.Report(out, figures)
}

// The groups of parts.
const (
	making    = ""
	lifecycle = "lifecycle"
)

// wants reports whether the flags ask for a part, alone or with its group.
func (s setup) wants(group, part string) bool { return s.only == group || s.only == part }
