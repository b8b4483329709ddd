package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestLimitFiles holds what is written for each version (cgroup-v1/*.rst and
// cgroup-v2.rst of the kernel's documentation).
func TestLimitFiles(t *testing.T) {
	t.Parallel()
	limits := Limits{CPUs: 1.5, Memory: seedbed.GiB, Processes: 99}
	for _, tt := range []struct {
		name string
		v2   bool
		want map[string]string
	}{
		{"version 1", false, map[string]string{
			"memory.limit_in_bytes": "1073741824", "memory.memsw.limit_in_bytes": "1073741824", "pids.max": "99",
			"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000",
		}},
		{"version 2", true, map[string]string{
			"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "99", "cpu.max": "150000",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			g := &group{path: map[string]string{}, v2: map[string]bool{}}
			for _, c := range controllers {
				g.path[c], g.v2[c] = dir, tt.v2
			}
			for name := range tt.want { // as the kernel has them
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g.limit(limits, func(text string) { t.Error(text) })
			got := map[string]string{}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				b, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				got[e.Name()] = string(b)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMissingControllers(t *testing.T) {
	t.Parallel()
	var notes []string
	g, err := newGroup(nil, "x", Limits{}.orDefaults(), false, func(text string) { notes = append(notes, text) })
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != len(controllers) {
		t.Errorf("notes %q, want one for each of %v", notes, controllers)
	}
	for _, c := range controllers {
		if g.holds(c) {
			t.Errorf("holds %s", c)
		}
	}
	if g.outOfMemory() || g.outOfProcesses() {
		t.Error("ran out of what it does not count")
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\noom 3\noom_kill 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &group{path: map[string]string{"memory": dir}, v2: map[string]bool{"memory": true}}
	if got := g.count("memory", "memory.events", "oom_kill"); got != 2 || !g.outOfMemory() {
		t.Errorf("%d, want 2", got)
	}
	if got := g.count("memory", "none", "oom_kill"); got != 0 {
		t.Errorf("%d of no file, want 0", got)
	}
}
