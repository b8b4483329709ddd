//go:build integration

package dir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/lab"
)

// A file that somebody opens to write to while it is imported is imported by
// nobody, and nothing of it is left; the writer goes on.
func TestImportOfAFileThatIsWrittenTo(t *testing.T) {
	t.Parallel()
	host, err := os.MkdirTemp("/dev/shm", "seedbed-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(host) })
	disk := filepath.Join(host, "disk.img")
	data, err := os.ReadFile(random(t, 256*seedbed.MiB))
	if err == nil {
		err = os.WriteFile(disk, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	lab.Settle(t, disk)
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	before := tree(t, p)
	var once sync.Once
	written := make(chan error, 1)
	_, err = p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: disk}, func(seedbed.Progress) {
		once.Do(func() {
			// The kernel knows of the writer before the import goes on. This one does not wait for the
			// file, the next one does.
			if _, err := os.OpenFile(disk, os.O_WRONLY|unix.O_NONBLOCK, 0); !errors.Is(err, unix.EWOULDBLOCK) {
				t.Errorf("opened for writing during the import: %v", err)
			}
			go func() {
				f, err := os.OpenFile(disk, os.O_WRONLY, 0)
				if err == nil {
					_, err = f.WriteString("other")
					err = errors.Join(err, f.Close())
				}
				written <- err
			}()
		})
	})
	if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), disk+" changed while it was read") {
		t.Errorf("imported: %v", err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if after := tree(t, p); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("left in the pool: %v", after)
	}
}
