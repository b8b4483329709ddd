package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// place is where a controller's cgroups may be made.
type place struct {
	dir     string
	unified bool
}

// hierarchies finds a place for each controller below the worker's own cgroup, as cgroups(7)
// describes for both versions. In the unified hierarchy devices do not need a controller, only a
// program attached to the cgroup.
func hierarchies() (map[string]place, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	where := map[string]place{}
	for controllers, at := range parseHierarchies(string(own), string(mounts)) {
		if controllers != "" { // version 1
			for c := range strings.SplitSeq(controllers, ",") {
				where[c] = place{dir: at}
			}
			continue
		}
		dir, err := delegated(at)
		if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil {
			return nil, fmt.Errorf("look for cgroup controllers: %w", err)
		}
		for _, c := range append(strings.Fields(string(b)), "devices") {
			if _, ok := where[c]; !ok {
				where[c] = place{dir: dir, unified: true}
			}
		}
	}
	return where, nil
}

// parseHierarchies joins /proc/self/cgroup and /proc/self/mountinfo. By the controllers of each
// hierarchy ("" for the unified one) it returns the directory of this process's own cgroup, or the
// hierarchy's root if that is not visible.
func parseHierarchies(own, mounts string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(own) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && !strings.HasPrefix(f[1], "name=") {
			paths[f[1]] = f[2]
		}
	}
	at := map[string]string{}
	for line := range strings.Lines(mounts) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 || !strings.HasPrefix(l[4], cgroupMount) {
			continue
		}
		for controllers, path := range paths {
			switch {
			case r[0] == "cgroup2" && controllers == "":
			case r[0] == "cgroup" && controllers != "" && sameControllers(controllers, r[2]):
			default:
				continue
			}
			rel, err := filepath.Rel(l[3], path)
			if err != nil || !filepath.IsLocal(rel) {
				rel = "."
			}
			dir := filepath.Join(l[4], rel)
			if _, err := os.Stat(dir); err != nil {
				dir = l[4]
			}
			at[controllers] = dir
		}
	}
	return at
}

func sameControllers(want, options string) bool {
	have := strings.Split(options, ",")
	for c := range strings.SplitSeq(want, ",") {
		if !slices.Contains(have, c) {
			return false
		}
	}
	return true
}

// delegated returns a directory of the unified hierarchy whose children have controllers. That is
// the worker's own cgroup if systemd has delegated it (a unit with Delegate=yes); the worker then
// moves into a child, because a cgroup with controllers for its children must not have processes
// itself. Otherwise it is the root.
func delegated(own string) (string, error) {
	dir := own
	if filepath.Base(own) == "worker" && ours(filepath.Dir(own)) {
		dir = filepath.Dir(own) // already moved
	} else if !ours(own) {
		dir = mountOf(own)
	} else {
		child := filepath.Join(own, "worker")
		if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("make the worker's own cgroup: %w", err)
		}
		if err := set(filepath.Join(child, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
			return "", fmt.Errorf("move the worker into its own cgroup: %w", err)
		}
	}
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return "", fmt.Errorf("look for cgroup controllers: %w", err)
	}
	for _, c := range []string{"memory", "pids", "cpu"} {
		if slices.Contains(strings.Fields(string(have)), c) {
			// This is refused where others have set rules; what exists is read afterwards.
			_ = set(filepath.Join(dir, "cgroup.subtree_control"), "+"+c)
		}
	}
	return dir, nil
}

// ours reports whether systemd has delegated the cgroup.
func ours(dir string) bool {
	for _, attr := range []string{"trusted.delegate", "user.delegate"} {
		b := make([]byte, 1)
		if n, err := unix.Getxattr(dir, attr, b); err == nil && n == 1 && b[0] == '1' {
			return true
		}
	}
	return false
}

// mountOf returns the mount that contains dir.
func mountOf(dir string) string {
	var at unix.Stat_t
	if unix.Stat(dir, &at) != nil {
		return dir
	}
	for dir != "/" {
		var up unix.Stat_t
		if unix.Stat(filepath.Dir(dir), &up) != nil || up.Dev != at.Dev {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
