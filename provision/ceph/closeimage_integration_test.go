//go:build integration && ceph

package ceph

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rbd"
	"golang.org/x/sys/unix"

	"seedbed/internal/sample"
)

// TestCloseAtOnce: images are closed as soon as they are open, by many calls at a time. Without the
// wait in closeImage, librbd aborts the process within seconds, or its calls do not return.
func TestCloseAtOnce(t *testing.T) {
	p, made := poolIn(t, shared()) // it takes all processors, so no other test runs beside it
	t.Cleanup(func() { empty(t, p) })
	blank(t, made, "base")
	with(t, made, "base", func(img *rbd.Image) error {
		_, err := img.CreateSnapshot(snapshot)
		return err
	})
	opts := rbd.NewRbdImageOptions()
	defer opts.Destroy()
	if err := opts.SetUint64(rbd.ImageOptionCloneFormat, 2); err != nil {
		t.Fatal(err)
	}
	if err := rbd.CloneImage(made.io, "base", snapshot, made.io, "clone", opts); err != nil {
		t.Fatal(err)
	}
	length := 8 * time.Second
	if sample.Long() {
		length = 5 * time.Minute
	}
	var (
		end    = time.Now().Add(length)
		closed atomic.Int64
		all    sync.WaitGroup
		s      *session
		err    error
	)
	// librbd's threads share one CPU, and all CPUs are busy. So the threads are interrupted often, also
	// between the two steps at the end of an open.
	bind(t, func() { s, err = connect(p.cfg) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for range runtime.NumCPU() {
		all.Go(func() {
			for time.Now().Before(end) {
			}
		})
	}
	for i := range 12 {
		name, at := "base", snapshot
		if i < 2 { // its parent is opened with it
			name, at = "clone", rbd.NoSnapshot
		}
		all.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				img, err := rbd.OpenImageReadOnly(s.io, name, at)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.closeImage(img); err != nil {
					t.Error(err)
				}
				closed.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("opened and closed %d times", closed.Load())
}

// bind runs fn, and the threads of C that it starts, on the first CPU.
func bind(t *testing.T, fn func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	first.Set(cpu)
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		t.Fatal(err)
	}
	fn()
	if err := unix.SchedSetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
}
