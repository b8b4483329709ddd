//go:build integration

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestTokenSurvivesAPowerCut checks that the administrator's token is complete on disk once it is
// in use: the file system stops without writing anything more, as in a power cut.
func TestTokenSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "mnt")
	disk := at + ".img"
	do := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	for _, err := range []error{os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 32<<20), os.Mkdir(at, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	do("mkfs.ext4", "-q", disk)
	do("mount", "-o", "loop", disk, at)
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	path := filepath.Join(at, "state", "admin.token")
	made, err := adminToken(path)
	if err != nil {
		t.Fatal(err)
	}
	stopFileSystem(t, at)
	do("umount", at)
	do("mount", "-o", "loop", disk, at)
	again, err := adminToken(path)
	if err != nil || !bytes.Equal(made, again) {
		t.Errorf("after the power cut: %v, and the token is the same: %t", err, bytes.Equal(made, again))
	}
}

// stopFileSystem shuts down the ext4 file system at a path without writing its journal
// (EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH).
func stopFileSystem(t *testing.T, at string) {
	t.Helper()
	f, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const shutdown = 0x8004587d
	flags := uint32(2)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		t.Fatal(errno)
	}
}
