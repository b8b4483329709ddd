package backup

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestSweepsAtOnce removes and tidies the same files by several sweeps at once. None of them fails.
func TestSweepsAtOnce(t *testing.T) {
	t.Parallel()
	d, err := openDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	name := func(n int) string { return fmt.Sprintf("%s%02x/%064x", chunksDir, n%4, n) }
	for n := range 200 {
		if err := d.put(t.Context(), name(n), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	var sweeps, tidying sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		sweeps.Go(func() {
			for n := range 200 {
				if _, err := d.remove(t.Context(), name(n), later); err != nil {
					t.Error(err)
				}
			}
		})
		tidying.Go(func() {
			for {
				if err := d.tidy(t.Context(), later); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	sweeps.Wait()
	close(done)
	tidying.Wait()
}
