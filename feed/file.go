package feed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// sweepTemp removes temporary files that durable.Write left at a crash.
func sweepTemp(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".*.*"))
	if err != nil {
		return err
	}
	for _, p := range left {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what a crash left: %w", err)
		}
	}
	return nil
}
