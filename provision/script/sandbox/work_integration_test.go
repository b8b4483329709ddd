//go:build integration

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
)

// TestWorks runs what provisioning scripts do on a volume of their own; each
// script must end well.
func TestWorks(t *testing.T) {
	t.Parallel()
	h := lab(t)
	const mkfs = "set -eux; d=/dev/rbd/vms/web1_sda; mkfs.ext4 -q $d; mkdir /tmp/target; mount -t ext4 -o noatime,discard $d /tmp/target; "
	for _, tt := range []struct{ name, script string }{
		{"ext4", mkfs + "echo hello > /tmp/target/f; mkdir /tmp/target/d; chown 1000:1000 /tmp/target/d; test $(stat -c " +
			"%u /tmp/target/f) = 0; grep '^/dev/rbd/vms/web1_sda /tmp/target ext4' /proc/mounts; umount /tmp/target; test ! -e /tmp/target/f"},
		{"ext2", "set -eux; d=/dev/rbd/vms/web1_sda; mkfs.ext2 -q -L data -m 1 $d; mkdir /tmp/target; mount $d /tmp/target; " +
			"echo x > /tmp/target/f; umount /tmp/target; mount -t ext2 $d /tmp/target; " +
			"test $(cat /tmp/target/f) = x; test $(blkid -o value -s LABEL $d) = data; umount /tmp/target"},
		{"ext3", "set -eux; d=/dev/rbd/vms/web1_sda; mkfs.ext3 -q $d; mkdir /tmp/target; mount $d /tmp/target; " +
			"echo x > /tmp/target/f; umount /tmp/target; mount -t ext3 $d /tmp/target; test $(cat /tmp/target/f) = x; umount /tmp/target"},
		// Not every kernel can mount it.
		{"vfat", "set -eux; d=/dev/rbd/vms/web1_sda; mkfs.vfat -F 32 -n DATA $d; " +
			"test $(blkid -o value -s TYPE $d) = vfat; test $(blkid -o value -s LABEL $d) = DATA; fsck.vfat -n $d"},
		{"xfs", "set -eux; d=/dev/rbd/vms/web1_sda; mkfs.xfs -q $d; mkdir /tmp/target; mount $d /tmp/target; " +
			"echo x > /tmp/target/f; umount /tmp/target; mount -t xfs $d /tmp/target; test $(cat /tmp/target/f) = x"},
		{"btrfs", "set -eux; d=/dev/rbd/vms/web1_sda; mkfs.btrfs -q $d; mkdir /tmp/target; mount -o compress=zstd:1 $d /tmp/target; " +
			"btrfs subvolume create /tmp/target/root; echo x > /tmp/target/root/f; umount /tmp/target; mount -t btrfs -o subvol=root $d " +
			"/tmp/target; test $(cat /tmp/target/f) = x; test $(stat -c %u /tmp/target/f) = 0; mknod /tmp/target/n c 1 3; umount /tmp/target"},
		{"probed type", mkfs + "umount /tmp/target; mount /dev/rbd/vms/web1_sda /tmp/target; umount -l /tmp/target; " +
			"mount /dev/rbd/vms/web1_sda /mnt; umount /mnt; mkdir /mnt/d; mount /dev/rbd/vms/web1_sda /mnt/d"},
		{"raw device", "set -eux; dd if=/dev/zero of=/dev/rbd/vms/web1_sda bs=1M count=4 conv=fsync; mkswap /dev/rbd/vms/web1_sda; " +
			"blockdev --getsize64 /dev/rbd/vms/web1_sda; test $(blkid -o value -s TYPE /dev/rbd/vms/web1_sda) = swap"},
		{"image", "set -eux; qemu-img create -q -f qcow2 /tmp/a.qcow2 8M; qemu-io -c 'write -P 65 0 1M' /tmp/a.qcow2; " +
			"qemu-img convert -C -f qcow2 -O raw /tmp/a.qcow2 /dev/rbd/vms/web1_sda; test $(head -c 3 /dev/rbd/vms/web1_sda) = AAA"},
		{"relative and linked paths",
			mkfs + "cd /tmp; mkdir target/d; ln -s target/d link; " +
				"mount --bind target/../target /tmp/link; umount link; cd target/d; mount -t tmpfs none .; umount ../d"},
		{"nodes", mkfs + `cd /tmp/target; umask 022; mknod -m 666 null c 1 3; mknod console c 5 1; mknod -m 600 tty c 5 0; mkfifo pipe; mknod p2 p
			test "$(stat -c '%u %g %a %t %T %F' null)" = '0 0 666 1 3 character special file'; echo x > null; rm null; test "$(stat -c %a console)" = 644`},
		{"chroot",
			mkfs + `mkdir -p /tmp/target/usr /tmp/target/proc /tmp/target/sys /tmp/target/dev /tmp/target/run /tmp/target/etc /tmp/target/tmp
			for l in bin sbin lib lib64; do ln -s usr/$l /tmp/target/$l; done; touch /tmp/target/etc/resolv.conf
			mount --bind /usr /tmp/target/usr; mount -t proc proc /tmp/target/proc; mount -t sysfs sysfs /tmp/target/sys
			mount --bind /dev /tmp/target/dev; mount -o bind /run /tmp/target/run; mount -t devpts devpts /tmp/target/dev/pts || true
			mount --bind /etc/passwd /tmp/target/etc/resolv.conf
			chroot /tmp/target sh -eux -c 'test $(stat -c %i /) = 2; ls /proc/self/fd; echo > /dev/null; grep ext4 /proc/mounts; ls -l /dev/rbd/vms; mount -t tmpfs -o size=1m tmpfs /tmp; df /tmp; umount /tmp; umount /etc/resolv.conf'
			umount -R /tmp/target/dev; umount /tmp/target/run /tmp/target/sys /tmp/target/proc; umount /tmp/target/usr; umount /tmp/target`},
		{"rbind and recursive unmount",
			mkfs + "mkdir /tmp/target/dev /tmp/target/proc; mount --rbind /dev /tmp/target/dev; " +
				"mount --make-rslave /tmp/target/dev; mount --rbind /proc /tmp/target/proc; umount -R /tmp/target"},
		{"read-only and back", mkfs + "mount -o remount,ro /tmp/target; ! touch /tmp/target/f; mount -o remount,rw /tmp/target; " +
			"touch /tmp/target/f; mkdir /tmp/ro; mount -o ro,bind /tmp/target /tmp/ro; ! touch /tmp/ro/g; umount /tmp/ro"},
		{"file systems inside one another",
			mkfs + "mkdir /tmp/target/var; mount -t tmpfs tmpfs /tmp/target/var; ! umount /tmp/target; " +
				"mkdir /tmp/target/var/x; umount /tmp/target/var; umount /tmp/target"},
		{"other users", mkfs + "chmod 777 /tmp/target; chown 33:33 /tmp/target/lost+found; setpriv --reuid 33 --regid 33 " +
			"--clear-groups sh -c 'id; touch /tmp/target/lost+found/f'; test $(stat -c %u /tmp/target/lost+found/f) = 33"},
		{"set-user-id and capabilities on files",
			mkfs + "cp /bin/true /tmp/target/t; chmod 4755 /tmp/target/t; test $(stat -c %a /tmp/target/t) = 4755; " +
				"setfattr -n user.x -v y /tmp/target/t 2>/dev/null || command -v setfattr || true"},
		{"python", `/usr/bin/python3 -c 'import os, socket, subprocess, tempfile, multiprocessing; print(subprocess.run(["id"], ` +
			`capture_output=True).stdout); multiprocessing.Lock(); tempfile.mkdtemp(); os.chroot("/tmp"); socket.socketpair()'`},
		{"threads and pipes", `/usr/bin/python3 -c 'import threading; t=[threading.Thread(target=print, args=(i,)) for i in range(20)]; ` +
			`[x.start() for x in t]; [x.join() for x in t]' | sort | tail -1`},
		{"output opened again", "echo a > /dev/stdout; echo b > /dev/stderr; echo c >> /proc/self/fd/1"},
		{"terminal", `/usr/bin/python3 -c 'import pty; assert pty.spawn(["true"]) == 0'`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out lines
			dev := disk(t, "512M")
			gate, open, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			// The script waits for its device at descriptor 3.
			s := start(t, h, sh(t, &out, "read x <&3; exec 3<&-; "+tt.script, func(s *Spec) { s.Channel = gate }))
			gate.Close()
			if err := s.AddDevice("/dev/rbd/vms/web1_sda", dev); err != nil {
				t.Fatal(err)
			}
			if err := s.AddDevice("/dev/rbd/vms/web1_sda", dev); err != nil {
				t.Errorf("again: %v", err)
			}
			open.WriteString("go\n")
			open.Close()
			if err := s.Wait(); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if busy(dev) {
				t.Errorf("%s is still held", dev)
			}
		})
	}
}

// TestOwners reads from outside what root inside has written: it is root's.
func TestOwners(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	dev := disk(t, "64M")
	run(t, "mkfs.ext4", "-q", dev)
	s := start(
		t,
		h,
		sh(
			t,
			&out,
			`until test -b /dev/rbd/p/v; do :; done; mkdir /tmp/m && mount -t ext4 /dev/rbd/p/v /tmp/m &&`+
				` cd /tmp/m && echo x > root && touch user && chown 1234:4321 user && mknod null c 1 3`,
		),
	)
	if err := s.AddDevice("/dev/rbd/p/v", dev); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	run(t, "mount", "-t", "ext4", "-o", "ro", dev, at)
	t.Cleanup(func() { run(t, "umount", at) })
	for name, want := range map[string][2]uint32{"root": {0, 0}, "user": {1234, 4321}, "null": {0, 0}} {
		st, err := os.Lstat(filepath.Join(at, name))
		if err != nil {
			t.Fatal(err)
		}
		sys := st.Sys().(*syscall.Stat_t)
		if got := [2]uint32{sys.Uid, sys.Gid}; got != want {
			t.Errorf("%s belongs to %v, want %v", name, got, want)
		}
	}
}

// TestDevices adds and removes a device while a program runs.
func TestDevices(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	dev, other := disk(t, "64M"), disk(t, "64M")
	run(t, "mkfs.ext4", "-q", dev)
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, h, sh(t, &out, `mkdir /tmp/m; while read c <&3; do eval "$c"; echo "end of $c"; done`, func(s *Spec) { s.Channel = ours }))
	ours.Close()
	do := func(c string) {
		t.Helper()
		theirs.WriteString(c + "\n")
		if err := await(func() bool { return strings.Contains(out.String(), "end of "+c) }); err != nil {
			t.Fatalf("%s: %s", c, out.String())
		}
	}
	const path = "/dev/rbd/p/v"
	if err := s.AddDevice(path, dev); err != nil {
		t.Fatal(err)
	}
	if err := s.AddDevice(path, other); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("another device under the same path: %v, want a conflict", err)
	}
	if err := s.AddDevice(path+"2", dev); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("the same device under another path: %v, want a conflict", err)
	}
	do("mount " + path + " /tmp/m")
	if err := s.RemoveDevice(path); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("remove while mounted: %v, want in use", err)
	}
	do("umount /tmp/m; exec 9<" + path)
	if err := s.RemoveDevice(path); err != nil {
		t.Error(err)
	}
	if err := s.RemoveDevice(path); err != nil {
		t.Errorf("again: %v", err)
	}
	do("test -e " + path + " || echo gone; mount /proc/self/fd/9 /tmp/m || echo refused")
	for _, want := range []string{"stdout: gone", "stdout: refused"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
	for _, bad := range []string{"/etc/x", "/dev/../etc/x", "/dev", "/dev/", "dev/x"} {
		if err := s.AddDevice(bad, other); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("path %q: %v, want invalid", bad, err)
		}
	}
	if err := s.AddDevice("/dev/x", "/dev/null"); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a character device: %v, want invalid", err)
	}
	theirs.Close()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	if err := s.AddDevice("/dev/y", other); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("after the end: %v, want unavailable", err)
	}
}

// TestRemoveRace removes a device from under a script that keeps mounting it: what
// is removed is not mounted.
func TestRemoveRace(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	dev := disk(t, "16M")
	run(t, "mkfs.ext4", "-q", dev)
	s := start(t, h, sh(t, &out, `mkdir /tmp/m; exec /usr/bin/python3 -c '
import ctypes
libc = ctypes.CDLL(None)
while True:
    if libc.mount(b"/dev/rbd/p/v", b"/tmp/m", b"ext4", 0, None) == 0:
        print("mounted")
        libc.umount2(b"/tmp/m", 0)'`))
	const path = "/dev/rbd/p/v"
	end := time.Now().Add(10 * time.Second)
	for removed := 0; removed == 0 || removed < 100 && time.Now().Before(end); removed++ {
		if err := s.AddDevice(path, dev); err != nil {
			t.Fatal(err)
		}
		before := out.count()
		if err := await(func() bool { return out.count() > before }); err != nil {
			t.Fatal("it does not mount")
		}
		for err := error(seedbed.ErrInUse); err != nil; {
			if err = s.RemoveDevice(path); err != nil && !errors.Is(err, seedbed.ErrInUse) {
				t.Fatal(err)
			}
		}
		if busy(dev) {
			t.Fatalf("%s is held after the removal", dev)
		}
	}
}

// TestShow shows more of the host, read-only, and hides a part of that.
func TestShow(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/mnt", "sandboxtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{dir, filepath.Join(dir, "secret")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "file"), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Open(
		Config{Dir: filepath.Join(t.TempDir(), "sandbox"), Show: []string{dir, "/no/such"}, Hide: []string{filepath.Join(dir, "secret")}})
	if err != nil {
		t.Fatal(err)
	}
	var out lines
	s := start(
		t,
		h,
		sh(t, &out,
			"set -eux; cd "+dir+"; test $(cat file) = text; test -z \"$(ls secret)\"; ! touch x; ! umount secret; touch /mnt/x; test ! -e /.lent"),
	)
	if err := s.Wait(); err != nil || !strings.Contains(out.String(), "sandbox: /no/such") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
