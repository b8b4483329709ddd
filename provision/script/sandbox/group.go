package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"seedbed"
)

// groupPrefix starts the name of each cgroup that is ours.
const groupPrefix = "seedbed-script-"

// cgroupMount is where the hierarchies are.
const cgroupMount = "/sys/fs/cgroup"

// group is the cgroups of one sandbox: one directory for each controller, which is the same for all
// in the unified hierarchy. Controllers that the host does not have are missing, and a note says
// what bounds the program instead.
type group struct {
	path map[string]string // by controller: memory, pids, cpu, devices
	v2   map[string]bool   // controllers whose path is in the unified hierarchy
	dirs []string          // all directories made, even if their controller could not be used
	// rules are the devices that the program may use; deviceFilter is the program that enforces them in
	// the unified hierarchy.
	rules        []device
	deviceFilter *deviceFilter
	// open means that there are no device rules, because the sandbox is privileged.
	open bool
}

var controllers = []string{"memory", "pids", "cpu", "devices"}

// newDirs returns the cgroups that newGroup would make.
func newDirs(where map[string]place, id string) (all []string) {
	for _, c := range controllers {
		if at, ok := where[c]; ok && !slices.Contains(all, filepath.Join(at.dir, groupPrefix+id)) {
			all = append(all, filepath.Join(at.dir, groupPrefix+id))
		}
	}
	return all
}

// newGroup makes the cgroups and sets the limits; it calls note for what the host lacks.
func newGroup(where map[string]place, id string, l Limits, privileged bool, note func(string)) (g *group, err error) {
	g = &group{path: map[string]string{}, v2: map[string]bool{}, open: privileged}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.remove(context.Background()))
		}
	}()
	for _, c := range controllers {
		at, ok := where[c]
		if !ok || c == "devices" && privileged {
			continue
		}
		dir := filepath.Join(at.dir, groupPrefix+id)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			note(fmt.Sprintf("cannot make a cgroup for %s on this host: %v", c, err))
			continue
		}
		g.path[c], g.v2[c] = dir, at.unified
		if !slices.Contains(g.dirs, dir) {
			g.dirs = append(g.dirs, dir)
		}
	}
	g.limit(l, note)
	if err := g.restrictDevices(note); err != nil {
		return g, err
	}
	return g, nil
}

// limit writes the limits. A controller whose limit cannot be set counts as missing.
func (g *group) limit(l Limits, note func(string)) {
	quota := strconv.Itoa(int(l.CPUs * 100000))
	type setting struct {
		controller, v1, v2, value string
		optional                  bool
	}
	for _, s := range []setting{
		{"memory", "memory.limit_in_bytes", "memory.max", strconv.FormatInt(int64(l.Memory), 10), false},
		{"memory", "memory.memsw.limit_in_bytes", "", strconv.FormatInt(int64(l.Memory), 10), true},
		// Version 1 does not count data that waits in sockets.
		{"memory", "memory.kmem.tcp.limit_in_bytes", "", strconv.FormatInt(int64(l.Memory)/4, 10), true},
		{"memory", "", "memory.swap.max", "0", true},
		{"memory", "", "memory.oom.group", "1", true},
		{"pids", "pids.max", "pids.max", strconv.Itoa(l.Processes), false},
		{"cpu", "cpu.cfs_period_us", "", "100000", true},
		{"cpu", "cpu.cfs_quota_us", "cpu.max", quota, false},
	} {
		dir, file := g.path[s.controller], s.v1
		if g.v2[s.controller] {
			file = s.v2
		}
		if dir == "" || file == "" {
			continue
		}
		err := set(filepath.Join(dir, file), s.value)
		if err != nil && !s.optional {
			note(fmt.Sprintf("cannot set a limit of %s on this host: %v", s.controller, err))
			delete(g.path, s.controller)
		}
	}
	fallback := map[string]string{
		"memory":  "the address space of each process is limited instead, but files in memory are not",
		"pids":    "a resource limit bounds the number of processes instead",
		"cpu":     "processor time is not limited",
		"devices": "volumes are mounted nodev, so debootstrap will refuse them",
	}
	for _, c := range controllers {
		if g.path[c] == "" && !(c == "devices" && g.open) {
			note(fmt.Sprintf("this host has no cgroup controller for %s: %s", c, fallback[c]))
		}
	}
}

// set writes one of the kernel's files, and never creates one.
func set(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// holds reports whether the controller limits the program.
func (g *group) holds(controller string) bool { return g.path[controller] != "" }

// join puts the process, and all that it will start, under the limits.
func (g *group) join(pid int) error {
	for _, dir := range g.dirs {
		if err := set(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("put the script under its limits: %w", err)
		}
	}
	return nil
}

// outOfMemory reports whether the kernel killed a process for lack of memory.
func (g *group) outOfMemory() bool {
	file := "memory.oom_control"
	if g.v2["memory"] {
		file = "memory.events"
	}
	return g.count("memory", file, "oom_kill") > 0
}

// outOfProcesses reports whether a fork was refused.
func (g *group) outOfProcesses() bool { return g.count("pids", "pids.events", "max") > 0 }

func (g *group) count(controller, file, key string) int {
	dir := g.path[controller]
	if dir == "" {
		return 0
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// remove removes the cgroups, once they are empty.
func (g *group) remove(ctx context.Context) error {
	if g.deviceFilter != nil {
		g.deviceFilter.close()
		g.deviceFilter = nil
	}
	return removeGroups(ctx, g.dirs)
}

// removeGroups kills what is left in the cgroups and removes them. It only touches cgroups that
// carry our name.
func removeGroups(ctx context.Context, dirs []string) error {
	for _, dir := range dirs {
		if !strings.HasPrefix(filepath.Base(dir), groupPrefix) || !strings.HasPrefix(dir, cgroupMount+"/") {
			return seedbed.Errorf(seedbed.ErrInvalid, "cgroup %s is not ours", dir)
		}
		var last error
		err := poll(ctx, func() bool {
			last = unix.Rmdir(dir)
			if last == nil || last == unix.ENOENT {
				last = nil
				return true
			}
			end(dir)
			return false
		})
		if last != nil && err != nil {
			return fmt.Errorf("remove cgroup %s: %w", dir, last)
		}
	}
	return nil
}

// end kills the processes in the cgroup.
func end(dir string) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
