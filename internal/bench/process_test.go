package bench

import (
	"os"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	rss, err := RSS(os.Getpid())
	if err != nil || rss < 1<<20 || rss > 1<<32 {
		t.Errorf("RSS %d, %v", rss, err)
	}
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		now, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now > before { // this loop uses it
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no more than %s of CPU are counted", now)
		}
	}
}

// TestOthers: what this process uses is another's only when it is not left out.
func TestOthers(t *testing.T) {
	t.Parallel()
	own, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		without, err := Others(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		with, err := Others() // later, so that no less was used, unless a process ended that nobody waits for
		if err != nil || with < own {
			t.Fatalf("all processes have used %s, %v; this one alone %s", with, err, own)
		}
		if with >= without {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("all processes have used %s, all but this one %s before", with, without)
		}
	}
	if _, err := stat("none"); err == nil {
		t.Error("no process has a stat")
	}
}

func TestNoProcess(t *testing.T) {
	t.Parallel()
	if _, err := RSS(-1); err == nil {
		t.Error("no process has memory")
	}
	if _, err := CPU(-1); err == nil {
		t.Error("no process has used CPU")
	}
}
