//go:build ceph && libvirt

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/bench"
	"seedbed/internal/lab"
)

// imports has the engine and qemu-img write the same qcow2 file into the pool in
// turn: a usual one, and a small one, of whose time more is the snapshot's, which
// waits for the monitors. Then it looks at the worker's memory while a large one is imported.
func imports(ctx context.Context, s setup, i *installation, h *hand) ([]bench.Figure, error) {
	small, err := compare(ctx, s, i, h, s.mib)
	if err != nil {
		return nil, err
	}
	usual, err := compare(ctx, s, i, h, 4*s.mib)
	if err != nil {
		return nil, err
	}
	file, err := noise(ctx, i.dir, s.bigMiB)
	if err != nil {
		return nil, err
	}
	defer os.Remove(file)
	took, rss, err := i.imported(ctx, "big", file)
	if err != nil {
		return nil, err
	}
	if err := i.removeImage(ctx, "big"); err != nil {
		return nil, err
	}
	return []bench.Figure{
		{Name: "import_ratio", Mark: bench.AtMost(1.3), Runs: usual.ratios,
			How: fmt.Sprintf("a qcow2 file into the pool, to qemu-img convert -W into the same pool: %s (%s)", usual, small)},
		{Name: "import_rss_mib", Unit: "MiB", Mark: bench.AtMost(200), Runs: []float64{float64(rss) / float64(seedbed.MiB)},
			How: fmt.Sprintf("the most that the worker and its qemu-img had resident while %d MiB were imported, %.0f s", s.bigMiB, took.Seconds())},
	}, nil
}

// comparison is how long both took for a file of that size, in seconds.
type comparison struct {
	mib                  int
	engine, tool, ratios []float64
}

func (c comparison) String() string {
	return fmt.Sprintf("%d MiB, %.2f s to %.2f s", c.mib, bench.Median(c.engine), bench.Median(c.tool))
}

// compare imports one file on both sides in turn; the first turn warms up.
func compare(ctx context.Context, s setup, i *installation, h *hand, mib int) (c comparison, err error) {
	file, err := noise(ctx, i.dir, mib)
	if err != nil {
		return c, err
	}
	defer os.Remove(file)
	c.mib = mib
	for turn := -1; turn < s.imports; turn++ {
		name := fmt.Sprintf("noise%d-%d", mib, turn+1)
		took, _, err := i.imported(ctx, name, file)
		if err != nil {
			return c, err
		}
		if err := i.removeImage(ctx, name); err != nil {
			return c, err
		}
		hand, err := h.convert(ctx, i, file)
		if err != nil {
			return c, err
		}
		if turn >= 0 {
			c.engine, c.tool, c.ratios = append(c.engine, took.Seconds()), append(c.tool, hand.Seconds()), append(c.ratios,
				took.Seconds()/hand.Seconds())
		}
	}
	return c, nil
}

// noise is a qcow2 file of that many MiB that nothing makes smaller.
func noise(ctx context.Context, dir string, mib int) (string, error) {
	raw, file := filepath.Join(dir, "noise.raw"), filepath.Join(dir, "noise.qcow2")
	f, err := os.Create(raw)
	if err != nil {
		return "", err
	}
	defer os.Remove(raw)
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{1}), int64(mib)<<20)
	if err == nil {
		_, err = f.WriteAt([]byte{0x55, 0xaa}, 510)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("qemu-img convert: %w: %s", err, out)
	}
	return file, nil
}

// imported imports the file, from the claim to the end of the job, with the most memory that it took.
func (i *installation) imported(ctx context.Context, name, file string) (took time.Duration, rss int64, err error) {
	receipt, err := i.intake.Import(ctx, name, i.pool, seedbed.ImportSpec{Path: file}, seedbed.JobOptions{})
	if err != nil {
		return 0, 0, err
	}
	done, most := make(chan struct{}), make(chan int64, 1)
	go func() {
		var top int64
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-tick.C:
				top = max(top, family(i.worker.Cmd.Process.Pid))
			case <-done:
				tick.Stop()
				most <- top
				return
			}
		}
	}()
	job, err := i.await(ctx, receipt.Job)
	close(done)
	rss = <-most
	return job.Ended.Sub(job.Started), rss, err
}

// family is the resident memory of a process and of those that it has started.
func family(pid int) int64 {
	total, _ := bench.RSS(pid)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, child := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				total += family(n)
			}
		}
	}
	return total
}

func (i *installation) removeImage(ctx context.Context, name string) error {
	receipt, err := i.intake.RemoveImage(ctx, name, seedbed.JobOptions{})
	if err == nil {
		_, err = i.await(ctx, receipt.Job)
	}
	return err
}

// convert writes the file into a new RBD image with qemu-img, as an operator would.
func (h *hand) convert(ctx context.Context, i *installation, file string) (time.Duration, error) {
	const name = "by-hand"
	target := fmt.Sprintf("rbd:%s/%s:id=%s:conf=%s:keyring=%s", h.pool, name, lab.CephUser, i.conf.Conf, i.conf.Keyring)
	began := time.Now()
	out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-W", "-f", "qcow2", "-O", "raw", file, target).CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("qemu-img convert: %w: %s", err, out)
	}
	return took, rbd.RemoveImage(h.io, name)
}
