package lab

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// started is a process that cannot be taken for another: a later one with its number began at
// another time, or in another boot.
type started struct {
	PID   int
	Began string // the boot, and the clock ticks since then (proc(5), stat, field 22)
}

// errGone means that the process has ended, or that its number is no longer in use.
var errGone = errors.New("the process is gone")

// identify says who has the number now.
func identify(pid int) (started, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return started{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return started{}, errGone
	}
	if err != nil {
		return started{}, err
	}
	// The name, in parentheses, may hold anything; after it comes field 3.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return started{}, fmt.Errorf("process %d has an odd stat: %q", pid, stat)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return started{}, errGone
	}
	return started{PID: pid, Began: strings.TrimSpace(string(boot)) + " " + fields[19]}, nil
}

// alive reports whether the process still runs.
func (s started) alive() bool {
	now, err := identify(s.PID)
	return err == nil && now == s
}

// stop sends sig and waits for the end, at most for that long. A process that has already ended
// counts as stopped, even if another has its number now.
func (s started) stop(sig syscall.Signal, most time.Duration) error {
	p, err := os.FindProcess(s.PID) // holds on to the process, not to the number
	if err != nil {
		return err
	}
	defer p.Release()
	if !s.alive() {
		return nil
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("process %d: %w", s.PID, err)
	}
	for deadline := time.Now().Add(most); s.alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d has not ended %s after signal %q", s.PID, most, sig)
		}
	}
	return nil
}
