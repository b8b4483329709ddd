package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// mountProc mounts the /proc of the PID namespace. Files that concern the whole host are hidden or
// read-only. A script can only mount binds of it as proc, so the same rules hold for these.
func (w *warden) mountProc(root string) error {
	at := filepath.Join(root, "proc")
	m, err := newMount("proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	if w.proc, err = unix.Dup(m); err != nil {
		return err
	}
	unix.CloseOnExec(w.proc)
	if err := attach(m, at); err != nil {
		return err
	}
	if w.plan.Privileged {
		return nil
	}
	for _, name := range procFixed {
		if err := fix(filepath.Join(at, name)); err != nil {
			return err
		}
	}
	return cover(root, under("proc", procHidden))
}

// fix makes the part of a file system at path read-only.
func fix(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return nil // this kernel has none
	}
	m, err := cloneOne(unix.AT_FDCWD, path)
	if err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	if err := setAttrs(m, false, unix.MOUNT_ATTR_RDONLY); err != nil {
		unix.Close(m)
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return attach(m, path)
}

func under(dir string, names []string) (paths []string) {
	for _, n := range names {
		paths = append(paths, filepath.Join(dir, n))
	}
	return paths
}

// mountSys mounts a sysfs that shows only this network namespace, read-only. It has no cgroup
// hierarchy and no debugfs. The firmware is hidden, so that grub-install chooses BIOS, which the
// guests have.
func (w *warden) mountSys(root string) error {
	at := filepath.Join(root, "sys")
	if w.plan.Privileged {
		return showAll("/sys", at)
	}
	m, err := newMount("sysfs", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	if err := attach(m, at); err != nil {
		return err
	}
	return cover(root, under("sys", sysHidden))
}

// showAll shows a directory of the host unchanged, for a privileged sandbox.
func showAll(path, at string) error {
	m, err := cloneTree(unix.AT_FDCWD, path)
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	return attach(m, at)
}

// nodes are the files of /dev that every program can expect.
var nodes = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

var links = []struct{ name, to string }{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
}

// mountDev makes /dev, a file system in memory. The script sees it read-only. The warden can write to
// it through a second mount below it.
func (w *warden) mountDev(root string) error {
	at := filepath.Join(root, "dev")
	if w.plan.Privileged {
		return w.hostDev(root, at)
	}
	m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
		option{"mode", "0755"}, option{"size", "256k"}, option{"nr_inodes", "4096"})
	if err != nil {
		return err
	}
	if w.dev, err = unix.Dup(m); err != nil {
		return err
	}
	unix.CloseOnExec(w.dev)
	if err := attach(m, at); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := unix.Mknodat(w.dev, n.name, unix.S_IFCHR|0o666, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return fmt.Errorf("make /dev/%s: %w", n.name, err)
		}
		if err := unix.Fchmodat(w.dev, n.name, 0o666, 0); err != nil {
			return err
		}
	}
	for _, l := range links {
		if err := unix.Symlinkat(l.to, w.dev, l.name); err != nil {
			return err
		}
	}
	for _, d := range []string{"pts", "shm"} {
		if err := unix.Mkdirat(w.dev, d, 0o755); err != nil {
			return err
		}
	}
	seen, err := cloneOne(unix.AT_FDCWD, at)
	if err != nil {
		return fmt.Errorf("show /dev: %w", err)
	}
	if err := setAttrs(seen, false, unix.MOUNT_ATTR_RDONLY); err != nil {
		unix.Close(seen)
		return err
	}
	if err := attach(seen, at); err != nil {
		return err
	}
	pts, err := newMount(
		"devpts",
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
		option{
			Key: "newinstance",
		},
		option{"ptmxmode", "0666"},
		option{"mode", "0620"},
		option{"gid", strconv.Itoa(int(w.base) + 5)},
		option{"max", "256"},
	)
	if err != nil {
		return err
	}
	return attach(pts, filepath.Join(at, "pts"))
}

// hostDev shows the host's /dev, with a /dev/rbd that belongs to the sandbox.
func (w *warden) hostDev(root, at string) error {
	for _, tree := range []string{"/dev", "/run"} {
		if err := showAll(tree, filepath.Join(root, tree)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(at, "rbd"), 0o755); err != nil {
		return err
	}
	m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, option{"mode", "0755"}, option{"size", "256k"})
	if err != nil {
		return err
	}
	if err := attach(m, filepath.Join(at, "rbd")); err != nil {
		return err
	}
	w.dev, err = unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}
