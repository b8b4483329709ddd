package run

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profiled runs f with the CPU profiler on, whose result goes to a file that
// its owner alone can read, as "go tool pprof" wants it. With no file it only runs f.
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
