// Command scripts measures what the sandbox costs a provisioning script: the
// session of a script with five empty steps, as a worker runs it, beside the
// same steps run bare by the same interpreter. docs/reference/benchmarks.md says what the
// figure is. It needs root, and leaves nothing.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/bench"
	"seedbed/provision/script"
	"seedbed/provision/script/python"
	"seedbed/provision/script/sandbox"
)

// empty is the script, and bare what runs its steps without a worker.
var (
	//go:embed empty.py
	empty string
	//go:embed bare.py
	bare string
)

// steps are what a job runs of a script.
var steps = []string{"setup", "create", "prepare", "install", "cleanup"}

func main() {
	sandbox.Init() // the sandbox's own processes begin here
	runs := flag.Int("runs", 5, "values of the figure")
	pairs := flag.Int("pairs", 9, "pairs of rounds for each")
	interpreter := flag.String("python", "/usr/bin/python3", "the interpreter")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := measure(ctx, *runs, *pairs, *interpreter, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench scripts:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, runs, pairs int, interpreter string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "seedbed-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files := python.Files()
	files["script.py"], files["bare.py"] = []byte(empty), []byte(bare)
	for name, text := range files {
		path := filepath.Join(dir, "python", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
			return err
		}
	}
	boxes, err := sandbox.Open(sandbox.Config{Dir: filepath.Join(dir, "sandboxes")})
	if err != nil {
		return err
	}
	driver := script.New(script.Config{
		Start:  func(ctx context.Context, s sandbox.Spec) (script.Box, error) { return boxes.Start(ctx, s) },
		Python: interpreter, Limits: sandbox.Limits{CPUs: 2, Memory: 2 * seedbed.GiB, Processes: 512, Time: time.Minute},
	})
	defer func() { err = errors.Join(err, driver.Close()) }()

	var values, alone, inside []float64
	number := 0
	for range runs {
		var more []float64
		for range pairs {
			number++
			a, err := runBare(ctx, interpreter, filepath.Join(dir, "python"))
			if err != nil {
				return err
			}
			b, err := runSession(ctx, driver, seedbed.JobID(fmt.Sprintf("b0000000-0000-4000-8000-%012d", number)))
			if err != nil {
				return err
			}
			more, alone, inside = append(more, b-a), append(alone, a), append(inside, b)
		}
		values = append(values, bench.Median(more))
	}
	return bench.Report(out, []bench.Figure{{
		Name: "script_overhead_ms", Unit: "ms", Mark: bench.AtMost(300), Runs: values,
		How: fmt.Sprintf("a session of five empty steps in the sandbox, %.0f ms, minus the same bare, %.0f ms", bench.Median(inside),
			bench.Median(alone)),
	}})
}

// runBare is how many milliseconds the interpreter takes by itself.
func runBare(ctx context.Context, interpreter, dir string) (float64, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, interpreter, "-I", "-B", "-X", "utf8", filepath.Join(dir, "bare.py"), filepath.Join(dir, "lib"),
		filepath.Join(dir, "script.py"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("run the script bare: %w\n%s", err, out)
	}
	return milliseconds(began), nil
}

// runSession is how many milliseconds a worker takes, from the start of the
// sandbox to its end.
func runSession(ctx context.Context, driver *script.Driver, job seedbed.JobID) (float64, error) {
	const id = seedbed.InstanceID("ec2aaaaa-0000-4000-8000-000000000001")
	call := seedbed.Call{Job: job, Epoch: 1}
	began := time.Now()
	turns := []seedbed.ScriptTurn{{Start: &seedbed.ScriptStart{
		Instance: id, Name: "web1", Profile: "small", Number: "1", Text: empty, Data: json.RawMessage(`{"volumes": [], "networks": []}`),
	}}}
	for _, step := range steps {
		turns = append(turns, seedbed.ScriptTurn{Step: step})
	}
	for _, turn := range turns {
		result, err := driver.RunScript(ctx, call, turn, func(seedbed.OutputLine) {})
		if err != nil {
			return 0, err
		}
		if f := result.Failure; f != nil {
			return 0, fmt.Errorf("the script failed in %s: %s: %s\n%s", f.Step, f.Class, f.Message, f.Traceback)
		}
	}
	if err := driver.CloseScript(ctx, job, id); err != nil {
		return 0, err
	}
	return milliseconds(began), nil
}

func milliseconds(began time.Time) float64 { return float64(time.Since(began).Microseconds()) / 1000 }
