// Command api measures the REST API over a large installation: 10,000 profiles
// and 100,000 instances, in SQLite and in PostgreSQL, served by a process of its
// own and asked over loopback with a token that the database holds; and how the
// command-line client starts. docs/reference/benchmarks.md says what each figure is. It
// needs root, for PostgreSQL, and changes nothing outside of a temporary directory.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"seedbed/internal/bench"
	"seedbed/internal/lab"
)

// serving is the environment variable that makes this process the server.
const serving = "SEEDBED_BENCH_API"

// setup is what the flags say.
type setup struct {
	runs                int
	length              time.Duration
	profiles, instances int
	cli                 string
}

func main() {
	if at := os.Getenv(serving); at != "" {
		exit(serve(at))
	}
	var s setup
	flag.IntVar(&s.runs, "runs", 5, "turns of each side")
	flag.DurationVar(&s.length, "length", 3*time.Second, "how long a turn is")
	flag.IntVar(&s.profiles, "profiles", 10_000, "profiles with a script, and as many without")
	flag.IntVar(&s.instances, "instances", 100_000, "instances")
	flag.StringVar(&s.cli, "cli", "bin/bench/seedbed", "the command-line client, as it is installed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	exit(bench.Run(func(l *bench.Lab) error { return measure(ctx, s, l, os.Stdout) }))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench api:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func measure(ctx context.Context, s setup, l *bench.Lab, out io.Writer) error {
	server := lab.Postgres(l)
	var figures []bench.Figure
	for _, at := range []place{
		{name: "sqlite", path: filepath.Join(l.Dir, "seedbed.db"), bare: filepath.Join(l.Dir, "bare.db")},
		{name: "postgres", dsn: server.DSN(server.Database(l, "")), bare: server.DSN(server.Database(l, ""))},
	} {
		more, err := ofStore(ctx, s, at)
		if err != nil {
			return fmt.Errorf("%s: %w", at.name, err)
		}
		figures = append(figures, more...)
	}
	fair, err := fairness(ctx, l.Dir)
	if err != nil {
		return err
	}
	more, err := ofClient(ctx, s)
	if err != nil {
		return err
	}
	return bench.Report(out, append(append(figures, fair), more...))
}

// ofStore are the figures of one kind of store.
func ofStore(ctx context.Context, s setup, at place) (figures []bench.Figure, err error) {
	began := time.Now()
	if err := fill(ctx, s, at); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%s: filled in %.1f s\n", at.name, time.Since(began).Seconds())
	r, err := start(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := r.End(); err == nil {
			err = e
		}
	}()
	lists, err := steady(ctx, s, r.Addr, listRate, listings(s))
	if err != nil {
		return nil, err
	}
	shows, err := steady(ctx, s, r.Addr, showRate, objects(s))
	if err != nil {
		return nil, err
	}
	made, err := creates(ctx, s, r.Addr, at)
	if err != nil {
		return nil, err
	}
	return []bench.Figure{
		{
			Name: "list_p99_ms_" + at.name, Unit: "ms", Mark: bench.AtMost(50), Runs: lists,
			How: fmt.Sprintf("filtered pages of 100 at %d/s, from the send to the whole answer", listRate),
		},
		{
			Name: "show_p99_ms_" + at.name, Unit: "ms", Mark: bench.AtMost(5), Runs: shows,
			How: fmt.Sprintf("one instance, profile or template at %d/s", showRate),
		},
		{Name: "create_ratio_" + at.name, Mark: bench.AtLeast(0.5), Runs: made.ratios, How: made.how()},
	}, nil
}
