package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A lazy unmount detaches a mount and, separately, those inside it: a process whose directory is in
// a bind of /etc would then see what the covers hide. The kernel only keeps a mount and those
// inside it together if their mount point is removed, and it allows that from another mount
// namespace. So a mount that is to be unmounted lazily is moved to a directory that only the warden
// may enter, and a thread in a namespace of its own removes the directory.

// maxDetached bounds the number of unmounted mounts that may still be in use, which cannot be counted.
const maxDetached = 4096

// detachDir is where lazily unmounted mounts go.
type detachDir struct {
	dir    int // its directory
	remove chan string
	done   chan error
	count  int // mounts that went through it
}

// detachDirName is the directory's name. The script sees it but cannot enter it.
const detachDirName = ".left"

// mountDetachDir makes the directory. In a privileged sandbox the kernel itself unmounts.
func (w *warden) mountDetachDir(root string) error {
	if w.plan.Privileged {
		return nil
	}
	at := filepath.Join(root, detachDirName)
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		option{"mode", "0700"}, option{"size", "4k"}, option{"nr_inodes", "16"})
	if err != nil {
		return err
	}
	return attach(m, at)
}

// open starts the thread. It must run after the change of the root, so that its namespace has
// nothing that is not in the sandbox's.
func (l *detachDir) open() error {
	var err error
	if l.dir, err = unix.Open("/"+detachDirName, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	l.remove, l.done = make(chan string), make(chan error)
	go onThread(func() error { // never the main thread, which /proc/self shows
		err := unix.Unshare(unix.CLONE_NEWNS)
		l.done <- err
		if err != nil {
			return err
		}
		for name := range l.remove {
			l.done <- unix.Unlinkat(l.dir, name, unix.AT_REMOVEDIR)
		}
		return nil
	})
	if err := <-l.done; err != nil {
		return fmt.Errorf("make a namespace for unmounting: %w", err)
	}
	return nil
}

// lazyUnmount lazily unmounts what is mounted at the name, with all mounts inside.
func (b *broker) lazyUnmount(parent int, name string, id uint64) error {
	up, err := parents(b.proc)
	if err != nil {
		return err
	}
	n := size(up, id)
	if b.detachDir.count+n > maxDetached {
		return &denied{unix.EBUSY, fmt.Sprintf("%d mounts were unmounted while they were in use", b.detachDir.count)}
	}
	at, err := openIn(parent, name, unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	if got, err := mountID(at); err != nil || got != id {
		return unix.EAGAIN // its path was changed in the meantime
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR { // a file, which has no mounts inside
		if err := unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return err
		}
		b.detachDir.count += n
		return nil
	}
	place := strconv.Itoa(b.detachDir.count)
	if err := unix.Mkdirat(b.detachDir.dir, place, 0o700); err != nil {
		return err
	}
	if err := unix.MoveMount(at, "", b.detachDir.dir, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		_ = unix.Unlinkat(b.detachDir.dir, place, unix.AT_REMOVEDIR)
		return err
	}
	b.detachDir.count += n
	b.detachDir.remove <- place
	return <-b.detachDir.done
}

// size returns the number of mounts on the mount id, including itself.
func size(up map[uint64]uint64, id uint64) (n int) {
	for m := range up {
		for range len(up) {
			if m == id {
				n++
				break
			}
			next, there := up[m]
			if !there {
				break
			}
			m = next
		}
	}
	return n
}
