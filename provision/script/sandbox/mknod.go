package sandbox

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// makeable are the character devices whose nodes a script may make, as programs do that fill /dev.
// The console's node can be made but not opened.
var makeable = map[[2]uint32]bool{
	{1, 3}: true, {1, 5}: true, {1, 7}: true, {1, 8}: true, {1, 9}: true, // null, zero, full, random, urandom
	{5, 0}: true, {5, 1}: true, {5, 2}: true, // tty, console, ptmx
}

// mknod answers mknod(2) and mknodat(2) of devices; the filter allows other types.
func (b *broker) mknod(c *caller, n *notif) (what string, err error) {
	dir, args := int32(unix.AT_FDCWD), n.args[:]
	if int(n.number) == unix.SYS_MKNODAT {
		dir, args = int32(args[0]), args[1:]
	}
	name, err := c.text(args[0], 4096)
	if err != nil {
		return "mknod", err
	}
	mode, number := uint32(args[1]), decodeDevice(uint32(args[2]))
	what = fmt.Sprintf("mknod of device %d:%d as %s", number[0], number[1], quoted(name))
	if mode&unix.S_IFMT != unix.S_IFCHR {
		return what, deny("nodes of block devices cannot be made: the job's own are in /dev")
	}
	if !makeable[number] {
		return what, deny("expected one of null, zero, full, random, urandom, tty, console, ptmx")
	}
	last := path.Base(name)
	if strings.HasSuffix(name, "/") || name == "" {
		return what, unix.ENOENT
	}
	if last == "." || last == ".." || last == "/" {
		return what, unix.EEXIST
	}
	parent, err := c.resolve(dir, strings.TrimSuffix(name, last)+".")
	if err != nil {
		return what, err
	}
	defer unix.Close(parent)
	id, err := mountID(parent)
	if err != nil {
		return what, err
	}
	if _, ok := b.own[id]; !ok {
		return what, deny("the directory is not on a file system of the script's own")
	}
	return what, b.asRoot(func() error {
		return unix.Mknodat(parent, last, mode&^c.umask, int(unix.Mkdev(number[0], number[1])))
	})
}

// asCaller runs f with the rights that root inside has to the host's files: those of every user.
func (b *broker) asCaller(f func() error) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	if err := unix.Capget(&head, &all[0]); err != nil {
		return err
	}
	few := all
	few[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&head, &few[0]); err != nil {
		return err
	}
	err := b.asRoot(f)
	if err := unix.Capset(&head, &all[0]); err != nil {
		return fmt.Errorf("take back the capabilities: %w", err)
	}
	return err
}

// asRoot runs f with the file system user of root inside, to which the files that f makes then
// belong, also through an idmapped mount.
func (b *broker) asRoot(f func() error) error {
	defer unix.Umask(unix.Umask(0))
	defer func() {
		_, _ = unix.SetfsgidRetGid(0)
		_, _ = unix.SetfsuidRetUid(0)
	}()
	_, _ = unix.SetfsgidRetGid(int(b.base))
	_, _ = unix.SetfsuidRetUid(int(b.base))
	if now, _ := unix.SetfsuidRetUid(-1); now != int(b.base) {
		return unix.EPERM
	}
	return f()
}

// decodeDevice decodes the device number of the system call (new_decode_dev of linux/kdev_t.h: 12
// bits of major between 8 and 12 of minor).
func decodeDevice(d uint32) [2]uint32 {
	return [2]uint32{d >> 8 & 0xfff, d&0xff | d>>12&0xfff00}
}
