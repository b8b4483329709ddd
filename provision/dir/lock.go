package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/sleep"
)

// The names of the locks. All nodes of a shared pool hold the first one together, which keeps out a
// node that wants the pool for itself.
const (
	lockFile = ".lock"
	turnFile = ".turn"
)

// turnLook is the interval at which a turn that another node has is polled.
const turnLook = 5 * time.Millisecond

// takeLocks keeps out all processes that do not share the pool.
func (p *Pool) takeLocks() error {
	how, hint := unix.LOCK_EX, "is a second seedbed-worker running?"
	if p.shared {
		how, hint = unix.LOCK_SH, "does a node use it without shared: true?"
	}
	err := p.takeLock(filepath.Join(p.path, lockFile), how, hint)
	if err == nil && p.shared {
		err = p.takeLock(filepath.Join(p.building, lockFile), unix.LOCK_EX,
			"is a second seedbed-worker running, or has another host the same node name?")
	}
	if err == nil && p.shared {
		if p.among, err = openLock(filepath.Join(p.path, turnFile)); err == nil {
			p.locks = append(p.locks, p.among)
		}
	}
	return err
}

// here returns ErrUnavailable if the pool's path no longer leads to the directory that was opened,
// because its file system was unmounted or another is mounted over it. What is not in the wrong
// directory is not gone. The lock that this process holds is the mark.
func (p *Pool) here() error {
	if !p.opened.Load() {
		if err := p.recognize(); err != nil {
			return err
		}
		return seedbed.Errorf(seedbed.ErrUnavailable, "pool %s was away until now, and is being opened: try again", p.name)
	}
	opened, err := p.locks[0].Stat()
	if err != nil {
		return fmt.Errorf("pool %s: %w", p.name, err)
	}
	mark := filepath.Join(p.path, lockFile)
	if found, err := os.Lstat(mark); err == nil && os.SameFile(opened, found) {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "pool %s is away: %s is not the file that seedbed-worker opened at its start. "+
		"Mount the pool's file system again. If it was replaced on purpose, restart seedbed-worker", p.name, mark)
}

func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

func (p *Pool) takeLock(path string, how int, hint string) error {
	f, err := openLock(path)
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = seedbed.Errorf(seedbed.ErrInUse, "%s is in use by another process: %s", p.path, hint)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.locks = append(p.locks, f)
	return nil
}

// Close releases the pool's locks. No call may be running.
func (p *Pool) Close() error {
	p.opened.Store(false)
	var errs []error
	for _, f := range p.locks {
		// Closing the file is not enough: a child that is just being started may have inherited it,
		// and the lock with it.
		errs = append(errs, unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
	}
	p.locks, p.among = nil, nil
	return errors.Join(errs...)
}

// ready returns ErrUnavailable if the pool is away. It opens a pool that was away until now.
func (p *Pool) ready(ctx context.Context) error {
	if p.opened.Load() {
		return p.here()
	}
	if err := p.enter(ctx); err != nil {
		return err
	}
	p.leave()
	return nil
}

// enter waits for the pool's turn, in a shared pool also among the nodes; leave returns it. It
// returns ErrUnavailable if the pool is away, and opens one that was away until now.
func (p *Pool) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := p.open()
	if err == nil {
		err = p.here()
	}
	if err == nil {
		err = p.enterAmong(ctx)
	}
	if err != nil {
		<-p.turn
		return err
	}
	// What another node is just making looks like what a crash leaves, so this needs the turn.
	if !p.swept {
		if err := p.sweep(); err != nil {
			p.leave()
			return fmt.Errorf("sweep pool %s: %w", p.name, err)
		}
		p.swept = true
	}
	return nil
}

// enterAmong waits for the turn among the nodes of a shared pool.
func (p *Pool) enterAmong(ctx context.Context) error {
	for p.among != nil {
		err := unix.Flock(int(p.among.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock pool %s among its nodes: %w", p.name, err)
		}
		if !sleep.For(ctx, turnLook) {
			return ctx.Err()
		}
	}
	return nil
}

func (p *Pool) leave() {
	if p.among != nil {
		if err := unix.Flock(int(p.among.Fd()), unix.LOCK_UN); err != nil {
			p.log.Error("pool stays locked for other nodes", "pool", p.name, "err", err)
		}
	}
	<-p.turn
}

// sweepTime bounds how long another node's turn may delay the opening of a pool.
const sweepTime = time.Minute
