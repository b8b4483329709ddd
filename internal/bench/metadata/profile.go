package main

import (
	"context"
	"os"
	"path/filepath"
)

// writeProfile starts the daemon again with its profiler, makes the load of
// the figures, and keeps what the profiler wrote.
func (l *lab) writeProfile(ctx context.Context) error {
	file, err := filepath.Abs(l.profile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := l.many.daemon.stop(); err != nil {
		return err
	}
	if err := l.many.start("-cpuprofile", file); err != nil {
		return err
	}
	if err := l.many.daemon.await(ctx, startTime, pollTime, func() bool { return l.many.answers(ctx) }); err != nil {
		return err
	}
	if err := l.loadAll(ctx); err != nil {
		return err
	}
	if err := l.many.daemon.stop(); err != nil {
		return err
	}
	say("%s is written; look at it with: go tool pprof -http=: %s", file, file)
	return nil
}

// loadAll makes the loads of the figures, or the one that was asked for, for as long as they take there.
func (l *lab) loadAll(ctx context.Context) error {
	from := &loader{sources: l.many.sources}
	for _, p := range l.pairs() {
		if l.load != "" && l.load != p.name {
			continue
		}
		for range l.runs * rounds {
			if _, err := from.round(ctx, &p.ours, 0, roundLength); err != nil {
				return err
			}
		}
	}
	if l.load != "" && l.load != "storm" {
		return nil
	}
	for range l.runs {
		if _, err := runStorm(ctx, l.many.sources, l.many.in, sockaddr(metadataTCP)); err != nil {
			return err
		}
	}
	return nil
}
