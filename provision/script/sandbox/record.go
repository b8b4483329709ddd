package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// record is what is stored on disk about a live sandbox: enough to end it after the worker has
// died. Its mounts exist only in its own namespace.
type record struct {
	// Warden is process 1's number outside, and Born when it started, in the kernel's ticks, since
	// numbers come back.
	Warden int    `json:"warden,omitempty"`
	Born   string `json:"born,omitempty"`
	// Groups are its cgroup directories.
	Groups []string `json:"groups,omitempty"`
}

func newRecord(warden int, groups []string) record {
	return record{Warden: warden, Born: born(warden), Groups: groups}
}

func (h *Host) recordPath(id string) string { return filepath.Join(h.cfg.Dir, id+".json") }

// record writes the record of the sandbox, replacing the last one.
func (h *Host) record(id string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := h.recordPath(id) + "~"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("record sandbox %s: %w", id, err)
	}
	if err := os.Rename(tmp, h.recordPath(id)); err != nil {
		return fmt.Errorf("record sandbox %s: %w", id, err)
	}
	return nil
}

// forget removes the record and the directory.
func (h *Host) forget(id string) error {
	for _, path := range []string{filepath.Join(h.cfg.Dir, id), h.recordPath(id)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget sandbox %s: %w", id, err)
		}
	}
	return nil
}

// Sweep ends and removes what a dead worker left: processes, and with them their mounts, and
// cgroups. It skips the sandboxes of this Host. What cannot be removed stays recorded and is named
// in the error.
func (h *Host) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(h.cfg.Dir)
	if err != nil {
		return fmt.Errorf("sweep sandboxes: %w", err)
	}
	var all []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || h.lives(id) {
			continue
		}
		if err := h.sweepOne(ctx, id); err != nil {
			all = append(all, fmt.Errorf("sweep sandbox %s: %w", id, err))
			continue
		}
		h.cfg.Log.Info("swept a sandbox that its worker left", "sandbox", id)
	}
	return errors.Join(all...)
}

func (h *Host) sweepOne(ctx context.Context, id string) error {
	var r record
	b, err := os.ReadFile(h.recordPath(id))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	if r.Warden > 0 {
		// A process descriptor first: what it names does not change afterwards.
		fd, err := unix.PidfdOpen(r.Warden, 0)
		if err == nil {
			defer unix.Close(fd)
			if r.Born != "" && born(r.Warden) == r.Born {
				if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
					return err
				}
				if err := poll(ctx, func() bool { return born(r.Warden) != r.Born }); err != nil {
					return fmt.Errorf("process %d does not end: %w", r.Warden, err)
				}
			}
		}
	}
	if err := removeGroups(ctx, r.Groups); err != nil {
		return err
	}
	return h.forget(id)
}

// born is the start time of a process that is not a zombie, in the kernel's ticks
// (proc_pid_stat(5), field 22), or empty.
func born(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the name, in parentheses, and may hold anything.
	i := strings.LastIndex(string(b), ") ")
	if i < 0 {
		return ""
	}
	f := strings.Fields(string(b[i+2:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}
