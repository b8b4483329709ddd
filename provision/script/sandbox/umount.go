package sandbox

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// umount answers umount2(2): target, flags.
func (b *broker) umount(c *caller, args [6]uint64) (what string, err error) {
	target, err := c.text(args[0], 4096)
	if err != nil {
		return "unmount", err
	}
	what = "unmount of " + quoted(target)
	flags := int(args[1]) & (unix.MNT_DETACH | unix.MNT_FORCE | unix.MNT_EXPIRE)
	if flags&unix.MNT_EXPIRE != 0 {
		return what, unix.EINVAL
	}
	at, err := c.resolve(unix.AT_FDCWD, target)
	if err != nil {
		return what, err
	}
	defer func() {
		if at >= 0 {
			unix.Close(at)
		}
	}()
	id, err := mountID(at)
	if err != nil {
		return what, err
	}
	rec, err := b.top(at)
	if err != nil {
		if b.cameAlong(id) {
			return what, nil // it goes with the bind that it came with
		}
		return what, err
	}
	// From here on, use the parent directory and the name. A descriptor of the mount itself would
	// keep it busy, and its path could be changed to mean another mount.
	parent, name, err := b.parentOf(at)
	if err != nil {
		return what, err
	}
	defer unix.Close(parent)
	unix.Close(at)
	at = -1
	return what, b.detach(parent, name, id, rec, flags&unix.MNT_DETACH != 0)
}

// cameAlong reports whether the mount is inside a bind that the broker made.
func (b *broker) cameAlong(id uint64) bool {
	up, err := parents(b.proc)
	if err != nil {
		return false
	}
	_, there := up[id]
	for range len(up) {
		if rec, ok := b.made[id]; ok {
			return there && rec.bind
		}
		if id, there = up[id]; !there {
			return false
		}
	}
	return false
}

// parentOf opens the directory that contains the mount at. A directory that is a mount point cannot
// be renamed or removed, so the name keeps its meaning.
func (b *broker) parentOf(at int) (int, string, error) {
	full, err := readlink(b.proc, fmt.Sprintf("self/fd/%d", at))
	if err != nil {
		return -1, "", err
	}
	if !path.IsAbs(full) || full == "/" {
		return -1, "", unix.EINVAL
	}
	parent, err := openIn(unix.AT_FDCWD, path.Dir(full), unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	return parent, path.Base(full), err
}

// detach unmounts the mount at the name. A lazy unmount moves it to the detach directory. A bind is
// always unmounted that way, because the mounts that were copied with it keep it busy.
func (b *broker) detach(parent int, name string, id uint64, rec *mounted, lazy bool) error {
	err := b.still(parent, name, id)
	if err != nil {
		return err
	}
	if err := unix.Fchdir(parent); err != nil {
		return err
	}
	defer func() { _ = unix.Chdir("/") }()
	err = unix.Unmount(name, unix.UMOUNT_NOFOLLOW)
	if err == unix.EBUSY && (lazy || rec.bind && !b.carries(id)) {
		err = b.lazyUnmount(parent, name, id)
	}
	if err != nil {
		return err
	}
	_, err = b.prune()
	return err
}

// still reports whether the mount at the name is still the one that was checked. Its path may have
// been changed in the meantime.
func (b *broker) still(parent int, name string, id uint64) error {
	var st unix.Statx_t
	if err := unix.Statx(parent, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st); err != nil {
		return err
	}
	if st.Mnt_id != id {
		return unix.EAGAIN
	}
	return nil
}

// carries reports whether the broker has mounted something inside the mount.
func (b *broker) carries(id uint64) bool {
	up, err := parents(b.proc)
	if err != nil {
		return true
	}
	for m := range b.made {
		for at, there := up[m]; there; at, there = up[at] {
			if at == id {
				return true
			}
		}
	}
	return false
}

// prune removes the records of mounts that no longer exist, since their numbers are reused. It
// returns the others.
func (b *broker) prune() (map[uint64]uint64, error) {
	now, err := parents(b.proc)
	if err != nil {
		return nil, err
	}
	for id := range b.made {
		if _, ok := now[id]; !ok {
			delete(b.made, id)
			delete(b.own, id)
		}
	}
	return now, nil
}
