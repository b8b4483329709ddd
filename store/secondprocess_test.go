package store

import (
	"bufio"
	"context"
	"errors"
	"os"
	proc "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// While one process has the database open, another cannot open it, and its error names the first.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	child := proc.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), crashVar+"="+path)
	out := do(child.StdoutPipe())(t)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(out); !lines.Scan() {
		t.Error("the other process writes nothing")
	}
	_, err := Open(ctx, Config{Path: path})
	if !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), strconv.Itoa(child.Process.Pid)) {
		t.Errorf("opened beside process %d: %v", child.Process.Pid, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed
	do(open(t, path).Images(ctx))(t)
}
