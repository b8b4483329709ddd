//go:build integration

package dir

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seedbed"
)

// What qemu-img is asked for in an import and a clone, and how it ends, is told to
// who listens; what it says to programs and of its progress is not.
func TestOutputOfCommands(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "src.vmdk")
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "vmdk", src, "8M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pool := openWith(t, Config{Path: filepath.Join(t.TempDir(), "pool"), Mapper: mappings(t)})
	var lines []seedbed.OutputLine
	ctx := seedbed.WithOutput(t.Context(), func(l seedbed.OutputLine) { lines = append(lines, l) })
	job, id := seedbed.NewJobID(), seedbed.NewInstanceID()
	if _, err := pool.ImportImage(ctx, job, seedbed.ImageSpec{Pool: "default", Name: "debian", Path: src}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.CloneVolume(ctx, job,
		seedbed.VolumeSpec{Pool: "default", Name: "v-0", Instance: id, Image: "debian", Size: 16 * seedbed.MiB}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"qemu-img convert -p -f vmdk", "qemu-img convert: ended well after ", "qemu-img create ",
		"qemu-img create: ended well after "} {
		if !slices.ContainsFunc(lines, func(l seedbed.OutputLine) bool {
			return l.Stream == seedbed.OutputNote && strings.HasPrefix(l.Text, want)
		}) {
			t.Errorf("no line begins with %q", want)
		}
	}
	for _, l := range lines {
		if l.Stream != seedbed.OutputNote || strings.Contains(l.Text, "/100%)") {
			t.Errorf("told of %+v", l)
		}
	}
	if t.Failed() {
		for _, l := range lines {
			t.Log(l)
		}
	}

	// Of one that fails, what it says to people.
	lines = nil
	damaged := filepath.Join(t.TempDir(), "damaged.qcow2")
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", damaged, "8M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Truncate(damaged, 66000); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.ImportImage(ctx, job,
		seedbed.ImageSpec{Pool: "default", Name: "none", Path: damaged}, nil); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a damaged image: %v", err)
	}
	complained := slices.ContainsFunc(lines,
		func(l seedbed.OutputLine) bool { return l.Stream == "stderr" && strings.HasPrefix(l.Text, "ERROR") })
	if !complained || len(lines) == 0 || !strings.Contains(lines[len(lines)-1].Text, ": exit status 2 after ") {
		t.Errorf("told of %v", lines)
	}
}
