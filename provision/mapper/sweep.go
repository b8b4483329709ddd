package mapper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"seedbed/internal/cgate"
)

const (
	// sweepTime bounds the removal of one mapping.
	sweepTime = time.Minute
	// endTime is how long a process may take to write its caches before it is killed.
	endTime    = 20 * time.Second
	pollMillis = 100
)

// Sweep removes all mappings that an earlier process left: it unmounts the devices, which it
// identifies by number only, and unmaps them. A device that is still mounted elsewhere is not
// forced, and stays on record. Call it before the first Map, and after the processes that used the
// devices, such as scripts, have ended.
func (h *Host) Sweep(ctx context.Context) error {
	h.mu.Lock()
	var all []*entry
	for _, e := range h.all {
		if e.Token != "" {
			all = append(all, e)
		}
	}
	h.mu.Unlock()
	var errs []error
	for _, e := range all {
		what := fmt.Sprintf("remove the mapping of volume %s of pool %s", e.Name, e.Pool)
		limit, cancel := context.WithTimeout(ctx, sweepTime)
		_, err := cgate.Through(limit, h.gate, what, e.key(), func(ctx context.Context) (struct{}, error) {
			return struct{}{}, h.takeBack(ctx, e)
		})
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			continue
		}
		h.log.Info("removed mapping of an earlier process", "pool", e.Pool, "volume", e.Name, "device", e.Device, "job", e.Job)
	}
	return errors.Join(errs...)
}

// takeBack ends a mapping that is no longer to be used, whatever is left of it.
func (h *Host) takeBack(ctx context.Context, e *entry) error {
	if e.Boot != h.boot { // the host has been restarted since
		return h.gone(e)
	}
	w := h.methodOf(e)
	device, _, err := w.device(ctx, e)
	if err != nil {
		return err
	}
	if device != "" {
		if err := unmountAll(device); err != nil {
			return err
		}
	}
	if err := w.detach(ctx, e, true); err != nil {
		return err
	}
	return h.gone(e)
}

// unmountAll unmounts the device wherever it is mounted.
func unmountAll(device string) error {
	points, err := mountsOf(device)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}
