package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mounted is one mount that the broker made.
type mounted struct {
	what string // for the log
	// bind: other mounts may have been copied with it. They are unmounted with it.
	bind bool
	// system: its file system does not belong to the script.
	system bool
	// writable: it may be made writable again after it was made read-only.
	writable bool
}

const (
	// maxMounts bounds the mounts in the sandbox's namespace.
	maxMounts = 512
	// Old programs add a magic number to the flags.
	magic, magicMask = 0xC0ED0000, 0xFFFF0000
	propagation      = unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE
)

// mount answers mount(2): source, target, type, flags, data.
func (b *broker) mount(c *caller, args [6]uint64) (what string, err error) {
	var text [4]string // of source, target, type and data
	for i, at := range []int{0, 1, 2, 4} {
		if text[i], err = c.text(args[at], 4096); err != nil {
			return "mount", err
		}
	}
	source, target, fstype, data := text[0], text[1], text[2], text[3]
	flags := args[3]
	if flags&magicMask == magic {
		flags &^= magicMask
	}
	what = fmt.Sprintf("mount of %s on %s", quoted(source), quoted(target))
	if fstype != "" {
		what += " as " + quoted(fstype)
	}
	at, err := c.resolve(unix.AT_FDCWD, target)
	if err != nil {
		return what, err
	}
	defer unix.Close(at)

	switch {
	case flags&unix.MS_REMOUNT != 0:
		return what, b.remount(at, flags)
	case flags&unix.MS_SHARED != 0:
		return what, deny("mounts inside are not shared with anything")
	case flags&propagation != 0:
		return what, nil // all mounts inside are private already, which is the same to the caller
	case flags&unix.MS_MOVE != 0:
		return what, deny("mounts are not moved: unmount it and mount it there")
	case flags&unix.MS_BIND != 0:
		return what, b.bind(c, source, at)
	}
	switch fstype {
	case "":
		return what, unix.EINVAL
	case "proc", "sysfs", "devpts":
		return what, b.bindOwn(fstype, at)
	case "tmpfs", "ramfs":
		return what, b.tmpfs(at, flags, data)
	}
	if _, ok := volumeTypes[fstype]; ok {
		return what, b.volume(c, source, fstype, at, flags, data)
	}
	return what, deny("only %s, tmpfs, proc, sysfs, devpts and binds are mounted", strings.Join(volumeNames(), ", "))
}

func quoted(s string) string { return fmt.Sprintf("%q", s[:min(len(s), 200)]) }

// place attaches the mount m to the target and records it. The target must be in a file system of
// the script, so that the script cannot cover a file of the system.
func (b *broker) place(m, at int, rec *mounted) error {
	id, err := mountID(at)
	if err != nil {
		return err
	}
	if _, ok := b.own[id]; !ok {
		return deny("the target is not in the script's own space (/tmp, /var/tmp, /mnt, /run, /dev/shm, or what it mounted there)")
	}
	if id, err = mountID(m); err != nil {
		return err
	}
	if err := unix.MoveMount(m, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return err
	}
	b.own[id], b.made[id] = !rec.system, rec
	return nil
}

// room refuses a mount if there are too many. A bind copies the mounts inside it.
func (b *broker) room() error {
	all, err := b.prune()
	if err != nil {
		return err
	}
	if len(all) >= maxMounts {
		return &denied{unix.ENOSPC, fmt.Sprintf("there are %d mounts already", len(all))}
	}
	return nil
}

// bind shows a directory or file that the script sees at a second place. It stays read-only if it
// is at the first. Mounts inside are always copied too, even without MS_REC, because one of them may
// hide a secret.
func (b *broker) bind(c *caller, source string, at int) error {
	from, err := c.resolve(unix.AT_FDCWD, source)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	id, err := mountID(from)
	if err != nil {
		return err
	}
	return b.bindFrom(from, "", source, !b.own[id], at)
}

// bindOwn answers a mount of a new proc, sysfs or devpts with a bind of the sandbox's own, which has
// the same content with fewer rights.
func (b *broker) bindOwn(fstype string, at int) error {
	path := map[string]string{"proc": "/proc", "sysfs": "/sys", "devpts": "/dev/pts"}[fstype]
	return b.bindFrom(unix.AT_FDCWD, path, fstype, true, at)
}

func (b *broker) bindFrom(dir int, path, what string, system bool, at int) error {
	if err := b.room(); err != nil {
		return err
	}
	m, err := cloneTree(dir, path)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	var st unix.Statfs_t
	if err := unix.Fstatfs(m, &st); err != nil {
		return err
	}
	return b.place(m, at, &mounted{what: what, bind: true, system: system, writable: st.Flags&unix.ST_RDONLY == 0})
}

// tmpfs mounts a file system in memory. Its content counts as memory of the script, and its size is
// limited like that of /tmp.
func (b *broker) tmpfs(at int, flags uint64, data string) error {
	if err := b.room(); err != nil {
		return err
	}
	opts, err := tmpfsOptions(data, b.plan.Tmp)
	if err != nil {
		return err
	}
	owner := fmt.Sprint(b.base)
	m, err := newMount("tmpfs", b.attrs(flags), append(opts, option{"uid", owner}, option{"gid", owner})...)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	return b.place(m, at, &mounted{what: "tmpfs", writable: flags&unix.MS_RDONLY == 0})
}

// volume mounts one of the job's devices. It is idmapped: root inside owns what root owns on the
// volume, and no other id of the sandbox is written to it.
func (b *broker) volume(c *caller, source, fstype string, at int, flags uint64, data string) error {
	from, err := c.resolve(unix.AT_FDCWD, source)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(from, &st)
	unix.Close(from)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return unix.ENOTBLK
	}
	path, ok := b.claim(&st)
	defer b.yield()
	if !ok {
		return deny("device %d:%d does not belong to this job", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	opts, err := volumeOptions(fstype, data)
	if err != nil {
		return err
	}
	if err := b.room(); err != nil {
		return err
	}
	if flags&unix.MS_RDONLY != 0 {
		opts = append(opts, option{Key: "ro"})
	}
	// Use the path and not the descriptor, so that mountinfo names the volume, as grub-install
	// and df expect. Only the warden can change the file at the path.
	m, err := newMount(driverOf(fstype), b.attrs(flags), append([]option{{"source", path}}, opts...)...)
	if err != nil {
		b.note("mount of %s as %s: %v", path, fstype, err)
		return err
	}
	defer unix.Close(m)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(b.users)}
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return deny("this kernel does not mount %s with mapped ids (%v): ext4 and vfat need Linux 5.12, btrfs 5.15, xfs 5.19", fstype, err)
	}
	return b.place(m, at, &mounted{what: path, writable: flags&unix.MS_RDONLY == 0})
}

// attrs translates the flags of mount(2). Set-user-id bits are kept on the volume but have no effect
// inside. Device nodes only work if a cgroup says which devices are allowed.
func (b *broker) attrs(flags uint64) int {
	a := unix.MOUNT_ATTR_NOSUID | b.devAttr()
	for _, f := range []struct {
		flag uint64
		attr int
	}{
		{unix.MS_RDONLY, unix.MOUNT_ATTR_RDONLY}, {unix.MS_NODEV, unix.MOUNT_ATTR_NODEV}, {unix.MS_NOEXEC, unix.MOUNT_ATTR_NOEXEC},
		{unix.MS_NOATIME, unix.MOUNT_ATTR_NOATIME}, {unix.MS_STRICTATIME, unix.MOUNT_ATTR_STRICTATIME},
		{unix.MS_NODIRATIME, unix.MOUNT_ATTR_NODIRATIME},
	} {
		if flags&f.flag != 0 {
			a |= f.attr
		}
	}
	if a&unix.MOUNT_ATTR_NOATIME != 0 {
		a &^= unix.MOUNT_ATTR_STRICTATIME // they are values of one field
	}
	return a
}

// remount makes a mount of the broker read-only, or writable again.
func (b *broker) remount(at int, flags uint64) error {
	rec, err := b.top(at)
	if err != nil {
		return err
	}
	var attr unix.MountAttr
	switch {
	case flags&unix.MS_RDONLY != 0:
		attr.Attr_set = unix.MOUNT_ATTR_RDONLY
	case rec.writable:
		attr.Attr_clr = unix.MOUNT_ATTR_RDONLY
	default:
		return deny("%s is read-only", rec.what)
	}
	return unix.MountSetattr(at, "", unix.AT_EMPTY_PATH, &attr)
}

// top returns the record of the mount whose top directory is at.
func (b *broker) top(at int) (*mounted, error) {
	var st unix.Statx_t
	if err := unix.Statx(at, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return nil, err
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return nil, unix.EINVAL
	}
	rec, ok := b.made[st.Mnt_id]
	if !ok {
		return nil, deny("it belongs to the sandbox")
	}
	return rec, nil
}

func volumeNames() (names []string) {
	for n := range volumeTypes {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
