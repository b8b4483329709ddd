package run

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profiled runs f with the CPU profiler, which writes a file for "go tool pprof" that only its
// owner can read. If file is empty, it only runs f.
func profiled(file string, f func() error) (err error) {
	if file == "" {
		return f()
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("CPU profile: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := pprof.StartCPUProfile(out); err != nil {
		return fmt.Errorf("CPU profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return f()
}
