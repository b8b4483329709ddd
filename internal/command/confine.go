package command

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confined is what a program that reads untrusted files may reach. It runs as nobody and not as root,
// and with the one capability that opens these files for it. If a file is on a file system of another
// host, where a capability of this one does not count, it stays root without the other capabilities.
// Where the kernel has Landlock, it can open no other files but those of the system's programs, and
// has no TCP. System calls that it does not need are refused (filter.go).
type Confined struct {
	// Files are opened files that the program inherits as the descriptors 3, 4 and so on. It may open
	// them for reading as /proc/self/fd/3.
	Files []*os.File
	// Read and Write are existing files that it may open by these paths, for reading and for both.
	Read, Write []string
}

// Nobody is the user of confined programs, who owns no files.
const Nobody = 65534

// The rights to files that all versions of Landlock know, and what each kind of file needs of them.
const (
	fsRights = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
	fsRead   = unix.LANDLOCK_ACCESS_FS_READ_FILE
	fsWrite  = fsRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	fsSystem = fsRead | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_DIR
)

// What a dynamically linked program of a distribution needs for itself.
var (
	system  = []string{"/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/proc", "/sys"}
	devices = []string{"/dev/null", "/dev/zero", "/dev/urandom"}
)

// start starts and awaits the process by run on a thread of its own, which is confined and ends with
// the process. The kernel gives the process what its thread has.
func (c *Confined) start(cmd *exec.Cmd, program string, run func() error) error {
	capability, asRoot := uintptr(unix.CAP_DAC_READ_SEARCH), !c.local() || !mapped(Nobody)
	if len(c.Write) > 0 {
		capability = unix.CAP_DAC_OVERRIDE
	}
	if os.Geteuid() == 0 && !asRoot {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: Nobody, Gid: Nobody}
		cmd.SysProcAttr.AmbientCaps = []uintptr{capability}
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread must not run anything else
		var err error
		if os.Geteuid() == 0 && asRoot {
			err = only(capability)
		}
		if err == nil {
			err = c.restrict(filepath.Dir(program))
		}
		if err == nil {
			err = filter()
		}
		if err == nil {
			err = run()
		}
		done <- err
	}()
	return <-done
}

// only leaves one capability to what the calling thread starts as root.
func only(capability uintptr) error {
	for i := uintptr(0); i <= unix.CAP_LAST_CAP; i++ {
		if i == capability {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, i, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EINVAL) { // an older kernel does not know it
			return fmt.Errorf("give up capability %d: %w", i, err)
		}
	}
	return nil
}

// local reports whether this host's kernel decides who may open each of the files.
func (c *Confined) local() bool {
	var st unix.Statfs_t
	own := func() bool {
		switch st.Type {
		case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
			unix.F2FS_SUPER_MAGIC, zfs:
			return true
		}
		return false
	}
	for _, f := range c.Files {
		if unix.Fstatfs(int(f.Fd()), &st) != nil || !own() {
			return false
		}
	}
	for _, path := range slices.Concat(c.Read, c.Write) {
		if unix.Statfs(path, &st) != nil || !own() {
			return false
		}
	}
	return true
}

// zfs is the file system's number, which is not in the kernel's own list.
const zfs = 0x2fc12fc1

// restrict confines the calling thread to the files, and to the programs in that directory.
func (c *Confined) restrict(programs string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil // this kernel has no Landlock, or has it switched off
	}
	attr := unix.LandlockRulesetAttr{Access_fs: fsRights}
	size, write := unsafe.Sizeof(attr.Access_fs), uint64(fsWrite)
	if version >= 3 {
		attr.Access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
		write |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		attr.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.Access_net)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock's rules: %w", errno)
	}
	defer unix.Close(int(set))
	err := errors.Join(c.allow(int(set), fsSystem, system...), c.allow(int(set), fsSystem, programs),
		c.allow(int(set), fsWrite, devices...), c.allow(int(set), fsRead, c.Read...), c.allow(int(set), write, c.Write...))
	for _, f := range c.Files {
		err = errors.Join(err, rule(int(set), int(f.Fd()), fsRead))
	}
	if err != nil {
		return fmt.Errorf("make Landlock's rules: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("restrict by Landlock: %w", errno)
	}
	return nil
}

// allow adds a right to what is at the paths. What is not there need not be allowed.
func (c *Confined) allow(set int, right uint64, paths ...string) error {
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		err = rule(set, fd, right)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("allow %s: %w", path, err)
		}
	}
	return nil
}

// rule allows a right to a file, or to what is in a directory. Files cannot be listed.
func rule(set, fd int, right uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		right &^= unix.LANDLOCK_ACCESS_FS_READ_DIR
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: right, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// mapped reports whether the user exists in this program's user namespace.
func mapped(user uint64) bool {
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			continue
		}
		first, _ := strconv.ParseUint(words[0], 10, 32)
		count, _ := strconv.ParseUint(words[2], 10, 32)
		if user >= first && user-first < count {
			return true
		}
	}
	return false
}
