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

// turnLine is what a benchmark of two nodes says of one turn.
var turnLine = regexp.MustCompile(`(?m)^LIFECYCLE (\w+) ([0-9.]+) ([0-9.]+)$`)

// twoNodes runs a benchmark of internal/e2e, which has an installation of two nodes, and returns the two values of each turn by what was
// measured.
func twoNodes(ctx context.Context, name string) (map[string][][2]float64, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "integration,libvirt", "-run", "^$", "-bench", "^"+name+"$", "-benchtime", "1x",
		"-timeout", "1h", "./internal/e2e")
	cmd.Dir = lab.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	text, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
	}
	all := map[string][][2]float64{}
	for _, m := range turnLine.FindAllStringSubmatch(string(text), -1) {
		var v [2]float64
		for n := range v {
			if v[n], err = strconv.ParseFloat(m[2+n], 64); err != nil {
				return nil, err
			}
		}
		all[m[1]] = append(all[m[1]], v)
	}
	return all, nil
}

// column is one of the two values of all turns.
func column(turns [][2]float64, n int) (all []float64) {
	for _, t := range turns {
		all = append(all, t[n])
	}
	return all
}

// ratios are those of the first value to the second.
func ratios(turns [][2]float64) (all []float64) {
	for _, t := range turns {
		all = append(all, t[0]/t[1])
	}
	return all
}

func failover(ctx context.Context) ([]bench.Figure, error) {
	all, err := twoNodes(ctx, "BenchmarkFailover")
	if err != nil {
		return nil, err
	}
	turns := all["failover"]
	return []bench.Figure{{Name: "failover_s", Unit: "s", Mark: bench.AtMost(60), Runs: column(turns, 0), How: fmt.Sprintf(
		"from the loss of a node (fencing.after: 40s) until libvirt on another one says that its ten guests run, of which %.1f s until the fence",
		bench.Median(column(turns, 1)))}}, nil
}

func migrate(ctx context.Context) ([]bench.Figure, error) {
	all, err := twoNodes(ctx, "BenchmarkMigrate")
	if err != nil {
		return nil, err
	}
	took, stood := all["migrate"], all["downtime"]
	return []bench.Figure{
		{Name: "migrate_ratio", Mark: bench.AtMost(1.1), Runs: ratios(took), How: fmt.Sprintf(
			"vm migrate of a guest of 512 MiB that writes to its memory, %.2f s, to virsh migrate of one like it, %.2f s",
			bench.Median(column(took, 0)), bench.Median(column(took, 1)))},
		{Name: "migrate_downtime_ratio", Mark: bench.AtMost(1.1), Runs: ratios(stood), How: fmt.Sprintf(
			"for how long the guest stood, by libvirt, %.0f ms, to the same by virsh migrate, %.0f ms", bench.Median(column(stood, 0)),
			bench.Median(column(stood, 1)))},
	}, nil
}
