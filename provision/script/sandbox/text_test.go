package sandbox

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestBelow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ root, dir, want string }{
		{"/", "/", "/"},
		{"/", "/tmp/a", "/tmp/a"},
		{"/tmp/target", "/tmp/target", "/"},
		{"/tmp/target", "/tmp/target/etc", "/etc"},
		{"/tmp/target", "/tmp/targets", ""},
		{"/tmp/target", "/tmp", ""},
		{"/", "/tmp/a (deleted)", ""},
		{"/", "(unreachable)/a", ""},
		{"/", "pipe:[1]", ""},
		{"/tmp/a", "/", ""},
	} {
		got, err := below(tt.root, tt.dir)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s below %s: %q, %v, want %q", tt.dir, tt.root, got, err, tt.want)
		}
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text       string
		uid, umask uint32
		bad        bool
	}{
		{"Name:\tUid: 1\nUmask:\t0027\nUid:\t1\t1879048192\t3\t4\n", 1879048192, 0o27, false},
		{"Umask:\t0022\nUid:\t0\t0\t0\t0\n", 0, 0o22, false},
		{"Uid:\t0\t0\t0\t0\n", 0, 0, true},
		{"Umask:\t0999\nUid:\t0\t0\t0\t0\n", 0, 0, true},
		{"Umask:\t0022\nUid:\t0\t-1\t0\t0\n", 0, 0, true},
		{"", 0, 0, true},
	} {
		uid, umask, err := parseStatus(tt.text)
		if uid != tt.uid || umask != tt.umask || (err != nil) != tt.bad {
			t.Errorf("%q: %d, %o, %v", tt.text, uid, umask, err)
		}
	}
}

func TestParseHierarchies(t *testing.T) {
	t.Parallel()
	own := "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/\n0::/user.slice\n"
	mounts := "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct,cpu\n" +
		"34 30 0:30 /a /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n" +
		"35 30 0:31 / /elsewhere rw - cgroup cgroup rw,pids\nrubbish\n"
	want := map[string]string{"memory": "/sys/fs/cgroup/memory", "cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct"}
	if diff := cmp.Diff(want, parseHierarchies(own, mounts)); diff != "" {
		t.Error(diff)
	}
}

func FuzzProc(f *testing.F) {
	f.Add("22 1 0:20 / / rw - tmpfs none rw\n", "Uid:\t0\t0\t0\t0\nUmask:\t0022\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		if m, err := parseParents(a); err == nil && a != "" && a != "\n" && len(m) == 0 {
			t.Errorf("no mounts in %q", a)
		}
		if _, umask, err := parseStatus(b); err == nil && umask > 0o7777 {
			t.Errorf("umask %o", umask)
		}
		parseHierarchies(a, b)
		if p, err := below(a, b); err == nil && p[0] != '/' {
			t.Errorf("%q below %q is %q", b, a, p)
		}
	})
}

func TestDecodeDevice(t *testing.T) {
	t.Parallel()
	for _, d := range [][2]uint32{{1, 3}, {5, 2}, {7, 300}, {259, 1048575}, {4095, 0}} {
		// As mknod(1) hands it over: makedev of the C library, cut to 32 bits.
		if got := decodeDevice(uint32(unix.Mkdev(d[0], d[1]))); got != d {
			t.Errorf("%v, want %v", got, d)
		}
	}
}

func TestGoodDevice(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/dev/rbd/vms/web 1_sda": true, "/dev/x": true, "/dev/": false, "/dev": false, "/dev/../x": false, "/dev/a/../b": false, "/dev//a": false,
		"/etc/x": false, "dev/x": false, "/dev/a\nb": false, "/dev/a/": false,
	} {
		if goodDevice(path) != want {
			t.Errorf("%q: %t, want %t", path, !want, want)
		}
	}
}

func TestErrnoOf(t *testing.T) {
	t.Parallel()
	if got := errnoOf(deny("x")); got != unix.EPERM {
		t.Error(got)
	}
	if got := errnoOf(errors.Join(errors.New("x"), unix.EBUSY)); got != unix.EBUSY {
		t.Error(got)
	}
	if got := errnoOf(errors.New("x")); got != unix.EPERM {
		t.Error(got)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	up := map[uint64]uint64{1: 0, 2: 1, 3: 2, 4: 2, 5: 4, 6: 1, 7: 8, 8: 7}
	for id, want := range map[uint64]int{1: 6, 2: 4, 4: 2, 5: 1, 9: 0} {
		if got := size(up, id); got != want {
			t.Errorf("%d mounts on %d, want %d", got, id, want)
		}
	}
}
