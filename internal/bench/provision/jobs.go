//go:build ceph && libvirt

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"seedbed/internal/bench"
	"seedbed/internal/lab"
)

// jobLine is what the engine's own benchmark says of one store.
var jobLine = regexp.MustCompile(
	`BenchmarkJobs/(\w+?)(?:-\d+)?\s+\d+\s+\d+ ns/op\s+([0-9.]+) commits/s\s+([0-9.]+) jobs/s\s+([0-9.]+) ratio`,
)

// engineJobs runs the engine's own benchmark, which has jobs of ten stages that do nothing.
func engineJobs(ctx context.Context) ([]bench.Figure, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "integration", "-run", "^$", "-bench", "^BenchmarkJobs$", "-benchtime", "3x",
		"-count", "3", "./provision")
	cmd.Dir = lab.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("measure the engine: %w\n%s", err, text)
	}
	marks := map[string]float64{"sqlite": 250, "postgres": 250}
	var figures []bench.Figure
	for _, store := range []string{"sqlite", "postgres"} {
		var rates, ratios, commits []float64
		for _, m := range jobLine.FindAllStringSubmatch(string(text), -1) {
			if m[1] != store {
				continue
			}
			var v [3]float64
			for i := range v {
				if v[i], err = strconv.ParseFloat(m[2+i], 64); err != nil {
					return nil, err
				}
			}
			commits, rates, ratios = append(commits, v[0]), append(rates, v[1]), append(ratios, v[2])
		}
		figures = append(
			figures,
			bench.Figure{
				Name: "engine_jobs_s_" + store, Unit: "jobs/s", Mark: bench.AtLeast(marks[store]), Runs: rates,
				How: "jobs of ten stages that do nothing, 16 at once",
			},
			bench.Figure{Name: "engine_jobs_ratio_" + store, Mark: bench.AtLeast(0.6), Runs: ratios,
				How: fmt.Sprintf("to 11 bare one-row commits a job, 16 clients: %.0f/s", bench.Median(commits))},
		)
	}
	return figures, nil
}
