package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// option is one parameter of a file system: a flag when Value is empty.
type option struct{ Key, Value string }

// newMount makes a file system that is mounted nowhere yet and returns its mount. The error of a
// refusal carries what the kernel wrote about it.
func newMount(fstype string, attrs int, options ...option) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open file system %s: %w", fstype, err)
	}
	defer unix.Close(fs)
	if len(options) == 0 || options[0].Key != "source" { // what mountinfo shows
		options = append([]option{{"source", fstype}}, options...)
	}
	for _, o := range options {
		if o.Value == "" {
			err = unix.FsconfigSetFlag(fs, o.Key)
		} else {
			err = unix.FsconfigSetString(fs, o.Key, o.Value)
		}
		if err != nil {
			return -1, fmt.Errorf("%s option %s=%s: %w%s", fstype, o.Key, o.Value, err, kernelSays(fs))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("make %s: %w%s", fstype, err, kernelSays(fs))
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", fstype, err)
	}
	return m, nil
}

// kernelSays reads the messages that a file system context holds.
func kernelSays(fs int) string {
	var all []string
	for buf := make([]byte, 1024); len(all) < 4; {
		n, err := unix.Read(fs, buf)
		if err != nil || n < 3 {
			break
		}
		all = append(all, strings.ToValidUTF8(string(bytes.TrimSpace(buf[2:n])), "?"))
	}
	if all == nil {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// cloneTree copies the mount at path below dir, with all that is mounted inside it: a copy without
// would show what the mounts inside hide.
func cloneTree(dir int, path string) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return unix.OpenTree(dir, path, flags)
}

// cloneOne copies the mount at path without those inside it.
func cloneOne(dir int, path string) (int, error) {
	return unix.OpenTree(dir, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
}

// setAttrs sets attributes of the mount m, and of those inside it when deep.
func setAttrs(m int, deep bool, attrs uint64) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if deep {
		flags |= unix.AT_RECURSIVE
	}
	return unix.MountSetattr(m, "", flags, &unix.MountAttr{Attr_set: attrs})
}

// attach puts the mount m at path and closes it.
func attach(m int, path string) error {
	defer unix.Close(m)
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount at %s: %w", path, err)
	}
	return nil
}

// openIn opens path with the restrictions, as a place to start from only. The kernel gives up with
// EAGAIN when anything on the host was renamed or mounted while it climbed a "..": then it is tried
// again.
func openIn(dir int, path string, flags, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: resolve}
	for range 100 {
		if fd, err = unix.Openat2(dir, path, &how); err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	return fd, err
}

// errnoOf returns the system's error inside err, or EPERM if there is none.
func errnoOf(err error) unix.Errno {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EPERM
}

// mountID is the kernel's number of the mount that fd lies in.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
		err = unix.ENOSYS // Linux before 5.8
	}
	return st.Mnt_id, err
}

// parents maps each mount of this process's namespace to the one it lies on.
func parents(proc int) (map[uint64]uint64, error) {
	f, err := openProc(proc, "self/mountinfo", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		return nil, err
	}
	return parseParents(b.String())
}

// parseParents reads the first two columns of a mountinfo file, as proc(5) describes it.
func parseParents(text string) (map[uint64]uint64, error) {
	m := map[uint64]uint64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return nil, fmt.Errorf("mountinfo line %q: expected ten columns", line)
		}
		id, err1 := strconv.ParseUint(f[0], 10, 64)
		parent, err2 := strconv.ParseUint(f[1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("mountinfo line %q: %w", line, err)
		}
		m[id] = parent
	}
	return m, nil
}

func openProc(proc int, path string, flags int) (*os.File, error) {
	fd, err := unix.Openat(proc, path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc/%s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
