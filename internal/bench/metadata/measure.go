package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"seedbed/internal/bench"
)

const (
	rounds      = 8                      // of each side in a run, in turns
	roundLength = 250 * time.Millisecond // of load
	// growthRound is how many requests a round of growth has, and growthPause the pause without
	// requests between two: its ten guests stay within what each may have.
	growthRound = 4000
	growthPause = 60 * time.Millisecond
	// stormPatience is how long storms may be made again that other programs disturbed.
	stormPatience = 15 * time.Second
)

// startTime is how long a daemon may take until it answers, and pollTime how often it is asked.
const (
	startTime = time.Minute
	pollTime  = 2 * time.Millisecond
)

// lab is everything that runs.
type lab struct {
	setup
	dir      string
	many     *host // with 100,000 instances
	few      *host // with 10
	constant *process
	tokens   []string
	patience patience
}

func measure(ctx context.Context, set setup) (err error) {
	dir, err := os.MkdirTemp("", "seedbed-bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	daemon, err := filepath.Abs(set.daemon)
	if err != nil {
		return err
	}
	set.daemon = daemon
	// What is measured is another process: this one only costs it time.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(3 << 30)
	l := &lab{setup: set, dir: dir, patience: patience{left: time.Minute, share: 0.1}}
	defer l.takeDown()
	if err := l.build(ctx); err != nil {
		return err
	}
	if set.profile != "" {
		return l.writeProfile(ctx)
	}
	return l.figures(ctx)
}

// say prints what happens.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// build starts both hosts and the constant server.
func (l *lab) build(ctx context.Context) error {
	began := time.Now()
	own, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.many, err = newHost(ctx, space(own), filepath.Join(l.dir, "many"), l.setup, manyGuests, attached)
	if err != nil {
		return err
	}
	say("%d instances are served, %d guests are attached: %.1f s", manyGuests, attached, time.Since(began).Seconds())
	other, err := unshared(nil)
	if err != nil {
		return err
	}
	if l.few, err = newHost(ctx, other, filepath.Join(l.dir, "few"), l.setup, fewGuests, fewGuests); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), inner+"="+partConstant)
	if l.constant, err = space(own).start(filepath.Join(l.dir, "constant.log"), cmd); err != nil {
		return err
	}
	one := l.many.sources[:1]
	if err := l.constant.await(ctx, 10*time.Second, 20*time.Millisecond, func() bool {
		b, err := askAll(ctx, one, sockaddr(constantTCP), get(idPath, "", true))
		return err == nil && b[0] == constantID
	}); err != nil {
		return err
	}
	// From here on everybody knows everybody's MAC.
	if _, err := askAll(ctx, l.many.sources, sockaddr(constantTCP), get(idPath, "", true)); err != nil {
		return err
	}
	// The listener of a bridge comes after the records are applied.
	for _, h := range []*host{l.many, l.few} {
		if err := h.daemon.await(ctx, 10*time.Second, 20*time.Millisecond, func() bool { return h.answers(ctx) }); err != nil {
			return err
		}
	}
	l.tokens, err = askAll(ctx, l.many.sources, sockaddr(metadataTCP), []byte(putToken))
	return err
}

// answers reports whether the first guest gets its instance-id.
func (h *host) answers(ctx context.Context) bool {
	b, err := askAll(ctx, h.sources[:1], sockaddr(metadataTCP), get(idPath, "", true))
	return err == nil && b[0] == h.sources[0].guest.ServedID()
}

func (l *lab) takeDown() {
	if l.constant != nil {
		if err := l.constant.stop(); err != nil {
			say("bench: %v", err)
		}
	}
	for _, h := range []*host{l.few, l.many} {
		if h != nil {
			h.stop()
		}
	}
}

// figures measures all of them. Growth comes first, while both daemons have nothing left to tell of
// a load.
func (l *lab) figures(ctx context.Context) error {
	var all []bench.Figure
	note := &table{}
	steps := []func(context.Context, *table) ([]bench.Figure, error){l.growth, l.rates, l.memory, l.boots, l.starts}
	for _, step := range steps {
		figures, err := step(ctx, note)
		if err = errors.Join(err, ctx.Err()); err == nil {
			err = errors.Join(l.many.daemon.alive(), l.few.daemon.alive(), l.constant.alive())
		}
		if err != nil {
			return err
		}
		all = append(all, figures...)
	}
	if err := note.write(os.Stdout); err != nil {
		return err
	}
	order := []string{
		"keepalive_ratio", "token_ratio", "newconn_ratio", "p99_ratio", "growth_ratio", "rss_mib", "start_s", "userdata_ratio", "storm_s",
	}
	slices.SortStableFunc(all, func(a, b bench.Figure) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
	return bench.Report(os.Stdout, all)
}
