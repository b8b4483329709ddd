package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shown are the directories of the host that a sandbox sees, read-only. Others, such as /srv, /home
// or most of /var, do not exist inside.
var shown = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt",
	"/var/lib/dpkg", "/var/lib/rpm", "/var/lib/ca-certificates",
}

// hidden are the secrets in them. Root inside has no rights on the host and cannot read most of them
// in any case. Hiding them protects those that are readable by everyone.
var hidden = []string{
	"/etc/ceph", "/etc/seedbed", "/etc/libvirt", "/etc/qemu", "/etc/pvc", "/etc/ssh", "/etc/ssl/private", "/etc/pki/tls/private",
	"/etc/pki/libvirt", "/etc/pki/libvirt-private", "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers",
	"/etc/sudoers.d", "/etc/krb5.keytab", "/etc/letsencrypt", "/etc/iscsi", "/etc/nvme", "/etc/wireguard", "/etc/openvpn",
	"/etc/ipsec.secrets", "/etc/swanctl", "/etc/NetworkManager", "/etc/netplan", "/etc/docker", "/etc/containerd", "/etc/kubernetes",
	"/etc/rancher", "/etc/patroni", "/etc/postgresql", "/etc/zookeeper", "/etc/crypttab", "/etc/cryptsetup-keys.d", "/etc/credstore",
	"/etc/credstore.encrypted", "/etc/machine-id", "/etc/security/opasswd", "/etc/ppp", "/etc/samba", "/etc/mysql", "/etc/exports",
	"/etc/multipath",
	"/etc/apt/auth.conf", "/etc/apt/auth.conf.d",
}

// procHidden and procFixed are the files of /proc that are hidden and made read-only: those of
// runc's specification, and similar ones.
var (
	procHidden = []string{
		"acpi", "asound", "config.gz", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup",
		"kpagecount", "kpageflags", "latency_stats", "mtrr", "sched_debug", "scsi", "slabinfo", "timer_list", "timer_stats", "vmallocinfo",
	}
	procFixed = []string{"bus", "dynamic_debug", "fs", "irq", "pressure", "sys", "sysrq-trigger", "tty"}
	sysHidden = []string{
		"firmware", "devices/virtual/powercap", "kernel/debug", "kernel/tracing", "kernel/security", "kernel/config", "fs/bpf", "fs/pstore",
	}
)

// build makes the root directory, at plan.Dir.
func (w *warden) build() error {
	root := w.plan.Dir
	m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, option{"mode", "0755"}, option{"size", "1m"})
	if err != nil {
		return err
	}
	if err := attach(m, root); err != nil {
		return err
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "var/tmp", "var/lib", "var/cache", "var/log", "root", "home",
		"mnt", "media", "srv", "boot"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	for _, step := range []func(string) error{w.mountDetachDir, w.mountProc, w.mountSys, w.mountDev, w.mountScratch, w.showHost,
		w.writeFiles} {
		if err := step(root); err != nil {
			return err
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return nil
}

// pivot makes root the root of this namespace for all its processes, and unmounts the old one.
// pivot_root(2) explains the two dots.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}

// showHost binds the directories of the host, read-only, and hides the secrets in them.
func (w *warden) showHost(root string) error {
	for _, path := range shown {
		to, err := os.Readlink(path) // /bin -> usr/bin
		switch {
		case err == nil:
			err = os.Symlink(to, filepath.Join(root, path))
		case errors.Is(err, fs.ErrNotExist):
			continue
		default:
			err = showOne(root, path)
		}
		if err != nil {
			return err
		}
	}
	for _, path := range w.plan.Show {
		err := showOne(root, path)
		if errors.Is(err, fs.ErrNotExist) {
			w.note("%s, which the configuration has scripts see, does not exist on this host", path)
		} else if err != nil {
			return err
		}
	}
	return cover(root, slices.Concat(hidden, w.plan.Hide))
}

func showOne(root, path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	at := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := mountPoint(at, st.IsDir()); err != nil {
		return err
	}
	m, err := cloneTree(unix.AT_FDCWD, path)
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	if err := setAttrs(m, true, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
		unix.Close(m)
		return fmt.Errorf("show %s read-only: %w", path, err)
	}
	return attach(m, at)
}

func mountPoint(at string, dir bool) error {
	if dir {
		return os.MkdirAll(at, 0o755)
	}
	f, err := os.OpenFile(at, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// cover puts an empty file or directory over each path below root that exists.
func cover(root string, paths []string) error {
	lent, err := mountTemp(filepath.Join(root, ".lent"), 0, option{"mode", "0755"}, option{"size", "4k"}, option{"nr_inodes", "4"})
	if err != nil {
		return err
	}
	defer lent.remove()
	if err := unix.Mkdirat(lent.fd, "dir", 0o555); err != nil {
		return err
	}
	if err := unix.Mknodat(lent.fd, "file", unix.S_IFREG|0o444, 0); err != nil {
		return err
	}
	for _, path := range paths {
		err := coverOne(root, path, lent.fd)
		if err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

func coverOne(root, path string, empty int) error {
	at, err := inRoot(root, path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	kind := "file"
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		kind = "dir"
	}
	m, err := cloneOne(empty, kind)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	if err := setAttrs(m, false, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	return unix.MoveMount(m, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// tempMount is a file system in memory that is mounted at a path for a moment, since older kernels
// copy parts only of mounted file systems.
type tempMount struct {
	fd int
	at string
}

func mountTemp(at string, attrs int, options ...option) (tempMount, error) {
	if err := os.Mkdir(at, 0o755); err != nil {
		return tempMount{}, err
	}
	m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|attrs, options...)
	if err != nil {
		return tempMount{}, err
	}
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		unix.Close(m)
		return tempMount{}, fmt.Errorf("mount at %s: %w", at, err)
	}
	return tempMount{m, at}, nil
}

func (l tempMount) remove() {
	unix.Close(l.fd)
	_ = unix.Unmount(l.at, unix.MNT_DETACH)
	_ = os.Remove(l.at)
}

// inRoot opens path as a process whose root directory is root would see it.
func inRoot(root, path string) (int, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return openIn(dir, path, 0, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
}

// mountScratch mounts the file system in memory that the script can fill, and shows parts of it at
// the paths for scratch files.
func (w *warden) mountScratch(root string) error {
	inodes := min(max(w.plan.Tmp/4096, 16384), 1<<20)
	lent, err := mountTemp(filepath.Join(root, ".lent"), w.devAttr(),
		option{"mode", "0755"}, option{"size", strconv.FormatInt(w.plan.Tmp, 10)}, option{"nr_inodes", strconv.FormatInt(inodes, 10)})
	if err != nil {
		return err
	}
	defer lent.remove()
	m := lent.fd
	places := []struct {
		name, at string
		mode     uint32
	}{{"tmp", "tmp", 0o1777}, {"vartmp", "var/tmp", 0o1777}, {"mnt", "mnt", 0o755}, {"shm", "dev/shm", 0o1777}, {"run", "run", 0o755}}
	for _, p := range places {
		if w.plan.Privileged && (p.name == "shm" || p.name == "run") {
			continue // the host's own are there
		}
		if err := unix.Mkdirat(m, p.name, p.mode); err != nil {
			return err
		}
		if err := unix.Fchmodat(m, p.name, p.mode, 0); err != nil {
			return err
		}
		if err := unix.Fchownat(m, p.name, int(w.base), int(w.base), 0); err != nil {
			return err
		}
		part, err := cloneOne(m, p.name)
		if err != nil {
			return fmt.Errorf("mount /%s: %w", p.at, err)
		}
		id, err := mountID(part)
		if err != nil {
			unix.Close(part)
			return err
		}
		w.own[id] = true
		if err := attach(part, filepath.Join(root, p.at)); err != nil {
			return err
		}
	}
	return nil
}

// devAttr returns nodev if no device cgroup limits which devices can be opened.
func (w *warden) devAttr() int {
	if w.plan.NoDevices {
		return unix.MOUNT_ATTR_NODEV
	}
	return 0
}

// writeFiles writes Spec.Files, and the name server configuration to which a link in /etc points,
// into a separate file system that is read-only and belongs to root outside.
func (w *warden) writeFiles(root string) error {
	size := int64(1 << 20)
	for _, b := range w.plan.Files {
		size += int64(len(b)) + 8192
	}
	m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, option{"mode", "0755"},
		option{"size", strconv.FormatInt(size, 10)})
	if err != nil {
		return err
	}
	at := filepath.Join(root, "run/seedbed")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := attach(m, at); err != nil {
		return err
	}
	for name, b := range w.plan.Files {
		path := filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o444); err != nil {
			return err
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	return w.resolver(root)
}

// resolver copies the name server configuration into /run where /etc/resolv.conf links to.
func (w *warden) resolver(root string) error {
	to, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil || !w.plan.Network || w.plan.Privileged || !strings.HasPrefix(to, "/run/") {
		return nil // none, no network, or seen as it is
	}
	b, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	at := filepath.Join(root, to)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, b, 0o644)
}
