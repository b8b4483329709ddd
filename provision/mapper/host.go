package mapper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/cgate"
)

const (
	// callTime bounds calls whose callers set no earlier deadline.
	callTime = 2 * time.Minute
	// undoTime bounds the removal of an unfinished mapping.
	undoTime = 30 * time.Second
	// closeTime bounds the wait for running calls.
	closeTime = 30 * time.Second
)

// Config is what a Host needs.
type Config struct {
	// Dir is its absolute directory. It is created, for root only, if it is missing. Its content
	// must not survive a reboot: use a directory below /run.
	Dir string
	Log *slog.Logger
}

// Host maps volumes on this host. Its methods may be called concurrently. A call that is stuck
// inside the kernel blocks only its own volume.
type Host struct {
	dir     string
	boot    string
	log     *slog.Logger
	lock    *os.File
	gate    *cgate.Gate
	methods []method

	mu  sync.Mutex
	all map[string]*entry // by Volume.key; an entry without a token is a reservation
}

// Open locks the directory and reads what an earlier process left, for Sweep to remove. It returns
// ErrInUse if another process has the directory.
func Open(c Config) (*Host, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the directory for mappings %q is not an absolute path", c.Dir)
	}
	h := &Host{dir: filepath.Clean(c.Dir), log: c.Log, all: map[string]*entry{}, gate: cgate.New(cgate.Config{
		Library: "this host", Owner: "the mapper", Subject: "volume",
		Hint:  "look for processes in state D (ps) and at the cluster's health (ceph -s), or restart the host",
		Limit: callTime,
	})}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.methods = h.allMethods()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	h.boot = strings.TrimSpace(string(boot))
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the directory for mappings: %w", err)
	}
	if err := h.takeLock(); err != nil {
		return nil, err
	}
	if err := h.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the directory for mappings: %w", err), h.Close())
	}
	return h, nil
}

func (h *Host) takeLock() error {
	f, err := os.OpenFile(filepath.Join(h.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the directory for mappings: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = seedbed.Errorf(seedbed.ErrInUse, "%s is in use by another process: is a second seedbed-worker running?", h.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	h.lock = f
	return nil
}

// Close waits for running calls and releases the directory. Mapped volumes stay mapped until the
// next Sweep.
func (h *Host) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := h.gate.Close(ctx)
	// Closing the file is not enough: a child that is just being started may have inherited it, and
	// the lock with it.
	return errors.Join(err, unix.Flock(int(h.lock.Fd()), unix.LOCK_UN), h.lock.Close())
}

// Map maps a volume for its job and returns the device. It first calls look, which refuses volumes
// that must not be mapped, with whether the volume is already mapped. From then on Free refuses the
// volume. The errors are those of worker.Mapper; a nil Host returns ErrUnavailable.
func (h *Host) Map(ctx context.Context, v Volume, look func(ctx context.Context, mapped bool) error) (string, error) {
	if err := seedbed.CheckName("volume", v.Name); err != nil {
		return "", err
	}
	if h == nil {
		return "", seedbed.Errorf(seedbed.ErrUnavailable, "pool %s has no mapper configured", v.Pool)
	}
	what := "map volume " + v.Name + " of pool " + v.Pool
	return cgate.Through(ctx, h.gate, what, v.key(), func(ctx context.Context) (string, error) {
		have := h.reserve(v)
		if err := look(ctx, have != nil); err != nil {
			if have == nil {
				h.drop(v.key())
			}
			return "", err
		}
		if have != nil {
			if have.Job != v.Job {
				return "", inUse(have)
			}
			device, works, err := h.methodOf(have).device(ctx, have)
			switch {
			case err != nil:
				return "", fmt.Errorf("%s: %w", what, err)
			case works:
				return device, nil
			}
			// The process that served it has died: only data that was not written down is lost with
			// it.
			if err := h.takeBack(ctx, have); err != nil {
				return "", fmt.Errorf("%s: %w", what, err)
			}
			h.reserve(v)
		}
		device, err := h.attach(ctx, v)
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		return device, nil
	})
}

// attach tries the methods that this host has, one after the other.
func (h *Host) attach(ctx context.Context, v Volume) (string, error) {
	var errs []error
	for _, w := range h.methods {
		if !w.takes(v) {
			continue
		}
		if err := w.can(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		e := &entry{Token: strings.ToLower(rand.Text()), Boot: h.boot, Method: w.name(), Volume: v}
		device := ""
		err := h.save(e)
		if err == nil {
			h.put(e)
			device, err = w.attach(ctx, e)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			done := *e // entries in the table are never changed
			done.Device, e = device, &done
			err = h.save(e)
		}
		if err == nil {
			h.put(e)
			h.log.Info("volume mapped", "pool", v.Pool, "volume", v.Name, "device", device, "method", e.Method, "job", v.Job)
			return device, nil
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		left := h.takeBack(undo, e)
		cancel()
		errs = append(errs, fmt.Errorf("%s: %w", w.name(), err))
		if left != nil { // it stays on record and thus in use
			return "", errors.Join(errors.Join(errs...), left)
		}
		if ctx.Err() != nil || errors.Is(err, seedbed.ErrInUse) {
			return "", err
		}
		h.reserve(v)
	}
	h.drop(v.key())
	if err := errors.Join(errs...); err != nil {
		return "", seedbed.Errorf(seedbed.ErrUnavailable, "no mapping method works on this host: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return "", seedbed.Errorf(seedbed.ErrUnavailable, "this host has no method to map it")
}

// Unmap removes a mapping of the instance's volume. The errors are those of worker.Mapper. A nil Host
// has mapped nothing.
func (h *Host) Unmap(ctx context.Context, pool, name string, id seedbed.InstanceID) error {
	if err := seedbed.CheckName("volume", name); err != nil || h == nil {
		return err
	}
	what := "unmap volume " + name + " of pool " + pool
	_, err := cgate.Through(ctx, h.gate, what, key(pool, name), func(ctx context.Context) (struct{}, error) {
		e := h.find(key(pool, name))
		switch {
		case e == nil:
			return struct{}{}, nil
		case id == "" || e.Instance != id:
			return struct{}{}, seedbed.Errorf(seedbed.ErrConflict, "volume %s of pool %s is mapped for instance %s, not for %s: it is not changed",
				name, pool, e.Instance, id)
		}
		if err := h.detach(ctx, e); err != nil {
			return struct{}{}, fmt.Errorf("%s: %w", what, err)
		}
		h.log.Info("volume unmapped", "pool", pool, "volume", name, "device", e.Device, "job", e.Job)
		return struct{}{}, nil
	})
	return err
}

// detach ends a mapping cleanly, or one whose server has died.
func (h *Host) detach(ctx context.Context, e *entry) error {
	w := h.methodOf(e)
	device, works, err := w.device(ctx, e)
	if err != nil {
		return err
	}
	died := device != "" && !works
	if died {
		if at, err := mountsOf(device); err == nil && len(at) > 0 {
			return busy(device)
		}
	}
	if err := w.detach(ctx, e, died); err != nil {
		return err
	}
	if err := h.gone(e); err != nil {
		return err
	}
	if died {
		return seedbed.Errorf(seedbed.ErrUnavailable, "the process that served %s has died: the last writes may be missing from the volume",
			device)
	}
	return nil
}

// gone removes the record of a mapping that no longer exists.
func (h *Host) gone(e *entry) error {
	if err := h.forget(e); err != nil {
		return err
	}
	h.drop(e.key())
	return nil
}

// inUse returns the error for a volume that is mapped.
func inUse(e *entry) error {
	return seedbed.Errorf(seedbed.ErrInUse, "volume %s of pool %s is mapped on this host%s for job %s: wait until that job has ended", e.Name,
		e.Pool, as(e.Device), e.Job)
}

func as(device string) string {
	if device == "" {
		return ""
	}
	return " as " + device
}
