//go:build ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/cgate"
	"seedbed/provision/image"
)

const (
	enoent    = syscall.ENOENT
	eexist    = syscall.EEXIST
	ebusy     = syscall.EBUSY
	enotempty = syscall.ENOTEMPTY
	eperm     = syscall.EPERM
	estale    = syscall.ESTALE
	einval    = syscall.EINVAL
	erofs     = syscall.EROFS
)

// closePatience bounds how long Close waits for calls inside the C library.
const closePatience = 30 * time.Second

// Pool is an open pool. It satisfies worker.Pool and worker.Checker.
type Pool struct {
	cfg  Config
	log  *slog.Logger
	lock *os.File
	gate *cgate.Gate
	link *link
	// spool holds uploaded files.
	spool *image.Spool

	mu     sync.Mutex
	active map[string]bool // RBD names that a call in this process is making
	// sawRoom is when more than the reserve was last free.
	sawRoom time.Time

	dirty chan struct{} // signals that something unfinished may be left
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// Open takes the pool's lock and sweeps what an earlier process of this node left unfinished. It
// succeeds while the cluster is away: calls then return ErrUnavailable, and the sweep runs later.
// It returns ErrInvalid for a configuration that cannot work, and ErrInUse if another process has
// the pool open.
func Open(ctx context.Context, c Config) (*Pool, error) {
	cfg, err := c.complete()
	if err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, log: cfg.Log, gate: newGate(), link: &link{cfg: cfg}, active: map[string]bool{}, dirty: make(chan struct{}, 1)}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if err := p.takeLock(); err != nil {
		return nil, err
	}
	if err := p.openSpool(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.sweep(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.log.Warn("Ceph pool is not swept yet", "pool", cfg.Name, "err", err)
		p.soil()
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	p.wg.Go(func() { p.clean(life) })
	return p, nil
}

func (p *Pool) takeLock() error {
	if err := os.MkdirAll(filepath.Dir(p.cfg.Lock), 0o755); err != nil {
		return fmt.Errorf("lock pool %s: %w", p.cfg.Name, err)
	}
	f, err := os.OpenFile(p.cfg.Lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock pool %s: %w", p.cfg.Name, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = seedbed.Errorf(seedbed.ErrInUse, "pool %s (lock %s) is in use by another process: is a second seedbed-worker running?", p.cfg.Name,
			p.cfg.Lock)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.lock = f
	return nil
}

// Close waits for running calls, ends the connection and releases the lock. It returns an error if
// calls are stuck inside the C library; they, and the lock, then end with the process.
func (p *Pool) Close() error {
	if p.stop != nil {
		p.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := errors.Join(p.gate.Close(ctx), cgate.Await(ctx, "the sweep", p.wg.Wait)); err != nil {
		return fmt.Errorf("close pool %s: %w", p.cfg.Name, err)
	}
	p.link.close()
	// Closing the file is not enough: a child that is just being started may have inherited it, and
	// the lock with it.
	return errors.Join(unix.Flock(int(p.lock.Fd()), unix.LOCK_UN), p.lock.Close())
}

// call runs fn with the session, behind the gate, and explains its error. Calls with the same key
// run one after the other, even if their callers have left.
func call[T any](ctx context.Context, p *Pool, what, key string, fn func(context.Context, *session) (T, error)) (T, error) {
	what += " in pool " + p.cfg.Name
	return cgate.Through(ctx, p.gate, what, key, func(ctx context.Context) (T, error) {
		var none T
		s, err := p.link.get(ctx)
		if err != nil {
			return none, explain(what, err)
		}
		if err := ctx.Err(); err != nil { // the caller has left
			p.link.put(s, false)
			return none, cgate.GaveUp("Ceph", what, err)
		}
		v, err := fn(ctx, s)
		p.link.put(s, is(err, shutDown) || errors.Is(err, errLeftOpen))
		if err != nil {
			return none, explain(what, err)
		}
		return v, nil
	})
}

// do is call without a result.
func (p *Pool) do(ctx context.Context, what, key string, fn func(context.Context, *session) error) error {
	_, err := call(ctx, p, what, key, func(ctx context.Context, s *session) (struct{}, error) {
		return struct{}{}, fn(ctx, s)
	})
	return err
}

// making records that names are being made, until the function that it returns is called.
func (p *Pool) making(names ...string) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range names {
		p.active[n] = true
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, n := range names {
			delete(p.active, n)
		}
	}
}

func (p *Pool) isActive(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active[name]
}
