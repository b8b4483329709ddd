// Command webhook measures how fast deliveries are accepted: the receiver with
// intake and store, in a process of its own, asked by 64 senders over loopback,
// beside as many clients that each insert one row and commit it, on the same
// kind of store. docs/reference/benchmarks.md says what each figure is. It needs root,
// for PostgreSQL, and changes nothing outside of a temporary directory.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"seedbed/internal/bench"
	"seedbed/internal/lab"
)

// serving is the environment variable that makes this process the receiver.
const serving = "SEEDBED_BENCH_STORE"

// setup is what the flags say.
type setup struct {
	runs   int
	length time.Duration
	burst  int
	only   string
}

func main() {
	if at := os.Getenv(serving); at != "" {
		exit(serve(at))
	}
	var s setup
	flag.IntVar(&s.runs, "runs", 5, "turns of each side")
	flag.DurationVar(&s.length, "length", 3*time.Second, "how long a turn is")
	flag.StringVar(&s.only, "only", "", "sqlite, postgres or projects: only that ratio")
	flag.IntVar(&s.burst, "burst", 10_000, "deliveries at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	exit(bench.Run(func(h *bench.Lab) error { return measure(ctx, s, h, os.Stdout) }))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench webhook:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func measure(ctx context.Context, s setup, h *bench.Lab, out io.Writer) error {
	var figures []bench.Figure
	if s.only == "" || s.only == "sqlite" {
		c, err := ratio(ctx, s, store{path: filepath.Join(h.Dir, "ratio", "seedbed.db"), bare: filepath.Join(h.Dir, "bare.db")})
		if err != nil {
			return err
		}
		figures = append(figures, bench.Figure{Name: "accept_ratio_sqlite", Mark: bench.AtLeast(0.5), Runs: c.ratios, How: c.how()})
	}
	if s.only == "" || s.only == "postgres" {
		server := lab.Postgres(h)
		c, err := ratio(ctx, s, store{dsn: server.DSN(server.Database(h, "")), bare: server.DSN(server.Database(h, ""))})
		if err != nil {
			return err
		}
		figures = append(figures, bench.Figure{Name: "accept_ratio_postgres", Mark: bench.AtLeast(0.4), Runs: c.ratios, How: c.how()})
	}
	if s.only == "" || s.only == "projects" {
		many, err := manyProjects(ctx, s, store{path: filepath.Join(h.Dir, "one", "seedbed.db")},
			store{path: filepath.Join(h.Dir, "many", "seedbed.db"), apart: true})
		if err != nil {
			return err
		}
		figures = append(figures, many)
	}
	if s.only != "" {
		return bench.Report(out, figures)
	}
	p99, err := steady(ctx, s, store{path: filepath.Join(h.Dir, "steady", "seedbed.db")})
	if err != nil {
		return err
	}
	figures = append(
		figures,
		bench.Figure{
			Name: "accept_p99_ms", Unit: "ms", Mark: bench.AtMost(10), Runs: p99, How: "from the send to the whole answer at 200/s, SQLite",
		},
	)
	b, err := burst(ctx, s, store{path: filepath.Join(h.Dir, "burst", "seedbed.db")})
	if err != nil {
		return err
	}
	figures = append(figures, b...)
	micros, err := verifyMicros(ctx)
	if err != nil {
		return err
	}
	figures = append(
		figures,
		bench.Figure{
			Name: "verify_us", Unit: "us", Mark: bench.AtMost(6), Runs: micros,
			How: "reading the headers and verifying a body of 4 KiB, scheme standard",
		},
	)
	return bench.Report(out, figures)
}

var perOp = regexp.MustCompile(`BenchmarkVerify\S*\s+\d+\s+([0-9.]+) ns/op`)

// verifyMicros runs the receiver's own benchmark of one verification.
func verifyMicros(ctx context.Context) ([]float64, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkVerify$", "-benchtime", "100ms", "-count", "7", "-cpu",
		"1", "./webhook/signature")
	cmd.Dir = lab.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("measure the verifier: %w\n%s", err, text)
	}
	var runs []float64
	for _, m := range perOp.FindAllSubmatch(text, -1) {
		ns, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return nil, err
		}
		runs = append(runs, ns/1000)
	}
	return runs, nil
}
