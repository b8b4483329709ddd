package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A lazy unmount takes a mount out of sight, and those inside it apart from it: a
// process that stands in a bind of /etc would see what the covers hide. Only
// where a mount point is removed does the kernel leave a mount and those inside it
// together, and it lets that be done from another mount namespace. So what is to be
// unmounted lazily is moved to a directory that only the warden may enter, and the
// directory is removed by a thread in a namespace of its own.

// maxLeft bounds the mounts that are unmounted and may still be held: nobody can
// count them.
const maxLeft = 4096

// limbo is where mounts go that are unmounted lazily.
type limbo struct {
	dir    int // its directory
	remove chan string
	done   chan error
	count  int // the mounts that went through it
}

// limboName is the directory's name; the script sees it and cannot enter.
const limboName = ".left"

// mountLimbo makes the directory. In a privileged sandbox the kernel itself unmounts.
func (w *warden) mountLimbo(root string) error {
	if w.plan.Privileged {
		return nil
	}
	at := filepath.Join(root, limboName)
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

// open starts the thread; after the change of the root, so that there is nothing
// in its namespace that is not in the sandbox's.
func (l *limbo) open() error {
	var err error
	if l.dir, err = unix.Open("/"+limboName, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	l.remove, l.done = make(chan string), make(chan error)
	go onThread(func() error { // never the first: what /proc/self shows is that one's
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

// leave unmounts lazily what is mounted at the name, together with what is inside.
func (b *broker) leave(parent int, name string, id uint64) error {
	up, err := parents(b.proc)
	if err != nil {
		return err
	}
	n := size(up, id)
	if b.left.count+n > maxLeft {
		return &denied{unix.EBUSY, fmt.Sprintf("%d mounts were unmounted while they were in use", b.left.count)}
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
		return unix.EAGAIN // its path was changed meanwhile
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR { // a file, with nothing inside
		if err := unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return err
		}
		b.left.count += n
		return nil
	}
	place := strconv.Itoa(b.left.count)
	if err := unix.Mkdirat(b.left.dir, place, 0o700); err != nil {
		return err
	}
	if err := unix.MoveMount(at, "", b.left.dir, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		_ = unix.Unlinkat(b.left.dir, place, unix.AT_REMOVEDIR)
		return err
	}
	b.left.count += n
	b.left.remove <- place
	return <-b.left.done
}

// size is the number of mounts that lie on the mount id, itself among them.
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
