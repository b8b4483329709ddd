//go:build integration

package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// calls is a Python module with raw system calls: call(number, …) gives "done" or the error's name.
const calls = `
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    r = libc.syscall(ctypes.c_long(nr), *[a if isinstance(a, (bytes, type(None))) or hasattr(a, '_obj') else ctypes.c_long(a) for a in args])
    return 'done' if r >= 0 else errno.errorcode[ctypes.get_errno()]
def try_(f, *args, **named):
    try:
        f(*args, **named)
        return 'done'
    except OSError as e:
        return errno.errorcode[e.errno]
def write(path, text='x'):
    with open(path, 'w') as f: f.write(text)
def read(path):
    with open(path) as f: return f.read(1)
def connect(family, address):
    s = socket.socket(family); s.settimeout(2); s.connect(address)
`

// secret writes a file that everybody on the host may read, for the time of the test.
func secret(t *testing.T, path string) {
	t.Helper()
	var made []string // the outermost last
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		made = append(made, dir)
	}
	for _, dir := range slices.Backward(made) {
		t.Cleanup(func() { os.Remove(dir) })
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("the secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
}

// TestEscapes tries what must fail. Each attempt prints how it failed, so that
// one which fails for want of a tool or by a mistake in the test is seen too.
func TestEscapes(t *testing.T) {
	t.Parallel()
	h := lab(t)
	unique := fmt.Sprintf("sandboxtest-%d", os.Getpid())
	key, database := "/etc/ceph/"+unique, "/var/lib/seedbed/"+unique
	other := "/srv/" + unique + "/file"
	for _, path := range []string{key, database, other} {
		secret(t, path)
	}
	closed := "/opt/" + unique + "/closed"
	secret(t, closed+"/file")
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := "/run/seedbed/" + unique + ".sock"
	secret(t, socket+".dir")
	for _, l := range [][2]string{{"unix", socket}, {"unix", "@" + unique}} {
		ln, err := net.Listen(l[0], l[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close() })
	port := tcp.Addr().(*net.TCPAddr).Port

	// The volume that the script gets has nodes of foreign devices on it.
	dev, foreign := disk(t, "64M"), disk(t, "64M")
	var st unix.Stat_t
	if err := unix.Stat(foreign, &st); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", dev)
	run(t, "mkfs.ext4", "-q", foreign)
	at := t.TempDir()
	run(t, "mount", dev, at)
	for name, d := range map[string]struct {
		mode uint32
		dev  uint64
	}{"foreign": {unix.S_IFBLK, st.Rdev}, "kmsg": {unix.S_IFCHR, unix.Mkdev(1, 11)}, "mem": {unix.S_IFCHR,
		unix.Mkdev(1, 1)}, "loop": {unix.S_IFCHR, unix.Mkdev(10, 237)}} {
		if err := unix.Mknod(filepath.Join(at, name), d.mode|0o666, int(d.dev)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(at, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/ceph/"+unique, filepath.Join(at, "link")); err != nil {
		t.Fatal(err)
	}
	run(t, "umount", at)
	major, minor := unix.Major(st.Rdev), unix.Minor(st.Rdev)
	core, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}

	py := func(lines ...string) string {
		return "/usr/bin/python3 -c 'import sys; sys.path.insert(0, \"/run/seedbed\"); from calls import *\n" + strings.Join(lines, "\n") + "'"
	}
	nr := func(number int, args string) string { return py(fmt.Sprintf("print(call(%d, %s))", number, args)) }
	const mount = "mkdir -p /tmp/m && mount /dev/rbd/p/v /tmp/m; "
	tests := []struct{ name, script, want string }{
		{"ceph key", py(`print(try_(read, "` + key + `"))`), "ENOENT"},
		{"ceph key through a bind", "mkdir /tmp/e; mount --bind /etc /tmp/e; " + py(`print(try_(read, "/tmp/e/ceph/`+unique+`"))`), "ENOENT"},
		{"ceph key under its cover", "umount /etc/ceph; " + py(`print(try_(read, "`+key+`"))`), "ENOENT"},
		{"ceph key under its cover in a bind",
			"mkdir /tmp/e; mount --bind /etc /tmp/e; umount /tmp/e/ceph; umount -l /tmp/e/ceph; " +
				py(`print(try_(read, "/tmp/e/ceph/`+unique+`"))`), "ENOENT"},
		{"ceph key in a bind that is left by a lazy unmount",
			"mkdir /tmp/e; mount --bind /etc /tmp/e; cd /tmp/e; umount -l /tmp/e; " +
				py(`print(os.path.exists("passwd"), try_(read, "ceph/`+unique+`"))`), "True ENOENT"},
		{"ceph key in a bind that is left by an unmount",
			"mkdir /tmp/e; mount --bind /etc /tmp/e; cd /tmp/e; umount /tmp/e; " +
				py(`print(os.path.exists("passwd"), try_(read, "ceph/`+unique+`"))`), "True ENOENT"},
		{"a closed directory of the host", py(`print(try_(read, "` + closed + `/file"))`), "EACCES"},
		{"a closed directory of the host through a bind",
			"touch /tmp/f; mount --bind " + closed + "/file /tmp/f; " + py(`print(repr(open("/tmp/f").read()))`), "''"},
		{"a closed directory of the host through two binds",
			"mkdir /tmp/o; mount --bind /opt /tmp/o; touch /tmp/f; mount --bind /tmp/o/" + unique +
				"/closed/file /tmp/f; " + py(`print(repr(open("/tmp/f").read()))`), "''"},
		{"ceph key through process 1", py(`print(try_(read, "/proc/1/root` + key + `"))`), "EACCES"},
		{"ceph key through a link on the volume", mount + py(`print(try_(read, "/tmp/m/link"))`), "ENOENT"},
		{"password hashes", py(`print(repr(open("/etc/shadow").read()))`), "''"},
		{"database", py(`print(try_(read, "` + database + `"))`), "ENOENT"},
		{"another tree of the host", py(`print(try_(read, "` + other + `"))`), "ENOENT"},
		{"control socket", py(`print(try_(connect, socket.AF_UNIX, "` + socket + `"))`), "ENOENT"},
		{"abstract socket", py(`print(try_(connect, socket.AF_UNIX, "\0` + unique + `"))`), "ECONNREFUSED"},
		{"host's loopback", py(fmt.Sprintf(`print(try_(connect, socket.AF_INET, ("127.0.0.1", %d)))`, port)), "ECONNREFUSED"},
		{"foreign device by name", py(`print(try_(open, "` + foreign + `"))`), "ENOENT"},
		{"foreign device by a new node", fmt.Sprintf("mknod /tmp/b b %d %d; ", major, minor) + py(`print(try_(open, "/tmp/b"))`), "ENOENT"},
		{"foreign device refused", fmt.Sprintf("mknod /tmp/b b %d %d", major, minor), "Operation not permitted"},
		{"foreign device by a node on the volume", mount + py(`print(try_(open, "/tmp/m/foreign"))`), "EPERM"},
		{"foreign device mounted", mount + "mkdir /tmp/f; mount -t ext4 /tmp/m/foreign /tmp/f", "does not belong to this job"},
		{"kernel log by a node on the volume", mount + py(`print(try_(open, "/tmp/m/kmsg"))`), "EPERM"},
		{"memory by a node on the volume", mount + py(`print(try_(open, "/tmp/m/mem"))`), "EPERM"},
		{"loop control by a node on the volume", mount + py(`print(try_(open, "/tmp/m/loop"))`), "EPERM"},
		{"mknodat with the node's type hidden", nr(unix.SYS_MKNODAT, fmt.Sprintf(`-100, b"/tmp/b", %d, %d`, 0o60666|1<<16, st.Rdev)), "EPERM"},
		{"host processes",
			py(fmt.Sprintf(`print(try_(os.stat, "/proc/%d/cmdline"), max(int(p) for p in os.listdir("/proc") if p.isdigit()) < 100)`, os.Getpid())),
			"ENOENT True"},
		{"process 1's environment", py(`print(try_(read, "/proc/1/environ"))`), "EACCES"},
		{"process 1's descriptors", py(`print(try_(os.listdir, "/proc/1/fd"))`), "EACCES"},
		{"process 1's memory", py(`print(try_(open, "/proc/1/mem", "r+b"))`), "EACCES"},
		{"signal to process 1", py(`print(try_(os.kill, 1, 9))`), "EPERM"},
		{"trace process 1", nr(unix.SYS_PTRACE, "16, 1, 0, 0"), "EPERM"},
		{"trace a child", py(fmt.Sprintf(
			"pid = os.fork()\nif pid == 0:\n  import time; time.sleep(60)\nprint(call(%d, 16, pid, 0, 0)); os.kill(pid, 9)", unix.SYS_PTRACE,
		)), "EPERM"},
		{"memory of a process", nr(unix.SYS_PROCESS_VM_READV, "1, None, 0, None, 0, 0"), "EPERM"},
		{"descriptor of a process", nr(unix.SYS_PIDFD_GETFD, "1, 0, 0"), "EPERM"},
		{"remount the root writable",
			"mount -o remount,rw /; mount -o remount,rw,bind /usr; " + py(`print(try_(write, "/x"), try_(write, "/usr/x"), try_(write, "/etc/x"))`),
			"EROFS EROFS EROFS"},
		{"unmount the root", "umount -l /; umount /usr", "it belongs to the sandbox"},
		{"cover the system", "mount -t tmpfs none /usr", "not in the script's own space"},
		{"cover proc", "mount -t tmpfs none /proc", "not in the script's own space"},
		{"cover devices", "mount -t tmpfs none /dev", "not in the script's own space"},
		{"move a mount", "mkdir /tmp/a; mount --move /usr /tmp/a", "mounts are not moved"},
		{"share a mount", "mount --make-shared /tmp", "not shared with anything"},
		{"core_pattern", py(`print(try_(write, "/proc/sys/kernel/core_pattern", "|/tmp/x"))`), "EROFS"},
		{"core_pattern in a new proc",
			"mkdir /tmp/p; mount -t proc proc /tmp/p; " + py(`print(try_(write, "/tmp/p/sys/kernel/core_pattern", "|/tmp/x"))`), "EROFS"},
		{"core_pattern in a new proc, uncovered",
			"mkdir /tmp/p; mount -t proc proc /tmp/p; umount -l /tmp/p/sys; umount /tmp/p/sys; mount -o remount,rw,bind /tmp/p/sys; " +
				py(`print(try_(write, "/tmp/p/sys/kernel/core_pattern", "|/tmp/x"))`), "EROFS"},
		{"core_pattern in a bind of a part",
			"mkdir /tmp/p; mount --bind /proc/sys /tmp/p; mount -o remount,rw,bind /tmp/p; " +
				py(`print(try_(write, "/tmp/p/kernel/core_pattern", "|/tmp/x"))`), "EROFS"},
		{"a new proc is the old one",
			"mkdir /tmp/p; mount -t proc proc /tmp/p; " + py(`print(os.stat("/tmp/p").st_dev == os.stat("/proc").st_dev)`), "True"},
		{"sysrq", py(`print(try_(write, "/proc/sysrq-trigger", "h"))`), "E"},
		{"kernel memory", py(`print("size", os.path.exists("/proc/kcore") and os.path.getsize("/proc/kcore") or 0)`), "size 0"},
		{"root's home", py(`print(try_(write, "/root/x"), os.listdir("/root"))`), "EROFS []"},
		{"sys", py(`print(try_(write, "/sys/kernel/uevent_helper"), try_(write, "/sys/power/state", "mem"))`), "E"},
		{"sys in a new sysfs", "mkdir /tmp/s; mount -t sysfs sysfs /tmp/s; mount -o remount,rw,bind /tmp/s; " +
			py(`print(try_(write, "/tmp/s/kernel/uevent_seqnum"))`), "EROFS"},
		{"release_agent", py(`print(try_(write, "/sys/fs/cgroup/release_agent"), os.listdir("/sys/fs/cgroup"))`), "[]"},
		{"cgroup file system", "mkdir /tmp/c; mount -t cgroup -o memory none /tmp/c; mount -t cgroup2 none /tmp/c; ls /tmp/c | wc -l",
			"stdout: 0"},
		{"devtmpfs", "mkdir /tmp/d; mount -t devtmpfs none /tmp/d; ls /tmp/d | wc -l", "stdout: 0"},
		{"other file systems", "mkdir /tmp/d; for t in overlay debugfs tracefs securityfs bpf fuse nfs mqueue hugetlbfs " +
			"binfmt_misc squashfs iso9660 autofs ramfs2; do mount -t $t none /tmp/d && echo MOUNTED $t; done; echo none", "stdout: none"},
		{"new mount calls", py(fmt.Sprintf(`print(call(%d, b"proc", 0), call(%d, -100, b"/", 1), call(%d, -100, b"/", 0, None, 0))`,
			unix.SYS_FSOPEN, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR)), "ENOSYS ENOSYS ENOSYS"},
		{"mount options that name the host",
			mount + "umount /tmp/m; for o in journal_path=/etc/shadow errors=panic usrjquota=x; " +
				"do mount -t ext4 -o $o /dev/rbd/p/v /tmp/m && echo MOUNTED; done; echo none", "stdout: none"},
		{"mount as another user", mount + "setpriv --reuid 33 --regid 33 --clear-groups --inh-caps=-all /usr/bin/python3 -c 'import " +
			"ctypes; l=ctypes.CDLL(None, use_errno=True); print(l.mount(b\"none\", b\"/tmp\", b\"tmpfs\", 0, None), ctypes.get_errno())'", "-1 1"},
		{"out of an idmapped mount",
			mount + "cd /tmp/m; ls ../../../../../../..; " +
				py(`print(os.path.samefile("/", "/tmp/m/../../../../.."), try_(os.link, "/etc/passwd", "/tmp/m/l"))`), "True EXDEV"},
		{"user namespace", py(fmt.Sprintf(`print(call(%d, 0x10000000), call(%d, 0x10000000|17, 0, 0, 0, 0), call(%d, b"x", 88))`,
			unix.SYS_UNSHARE, unix.SYS_CLONE, unix.SYS_CLONE3)), "EPERM EPERM ENOSYS"},
		{"mount namespace", py(fmt.Sprintf(`print(call(%d, 0x20000), call(%d, 0x20000|17, 0, 0, 0, 0))`, unix.SYS_UNSHARE,
			unix.SYS_CLONE)), "EPERM EPERM"},
		{"process 1's namespaces", py(fmt.Sprintf(`print(try_(open, "/proc/1/ns/mnt"), call(%d, os.open("/proc/self/ns/mnt", 0), 0))`,
			unix.SYS_SETNS)), "EACCES EPERM"},
		{"file handles", nr(unix.SYS_OPEN_BY_HANDLE_AT, "-100, b\"\\0\"*16, 0"), "EPERM"},
		{"chroot and out", py(`d = os.open("/", 0); os.mkdir("/tmp/c"); os.chroot("/tmp/c"); os.fchdir(d)`,
			`for i in range(64): os.chdir("..")`, `os.chroot(".")`,
			`print(os.path.exists("`+key+`"), os.path.exists("/run/seedbed/calls.py"))`), "False True"},
		{"out by an inherited descriptor",
			py(`print([try_(os.open, "..", 0, 0o777, dir_fd=int(f)) for f in os.listdir("/proc/self/fd") if int(f) < 3])`),
			"'ENOTDIR', 'ENOTDIR', 'ENOTDIR'"},
		{"swap roots", nr(unix.SYS_PIVOT_ROOT, `b"/tmp", b"/tmp"`), "EPERM"},
		{"kernel modules", py(fmt.Sprintf(`print(call(%d, b"x", 1, b""), call(%d, 0, b"", 0), call(%d, b"x", 0))`, unix.SYS_INIT_MODULE,
			unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE)), "EPERM EPERM EPERM"},
		{"keys", py(fmt.Sprintf(`print(call(%d, 0, 0, 0, 0, 0), call(%d, b"user", b"a", b"b", 1, -3))`, unix.SYS_KEYCTL,
			unix.SYS_ADD_KEY)), "EPERM EPERM"},
		{"calls of the machine's", py(fmt.Sprintf(`print(*[call(n, 0, 0, 0, 0, 0) for n in (%d,%d,%d,%d,%d,%d,%d,%d)])`, unix.SYS_BPF,
			unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_PERF_EVENT_OPEN, unix.SYS_QUOTACTL, unix.SYS_ACCT,
			unix.SYS_SYSLOG)), strings.TrimSpace(strings.Repeat("EPERM ", 8))},
		{"calls that are absent", py(fmt.Sprintf(`print(*[call(n, 0, 0, 0, 0, 0) for n in (%d,%d,%d,467,999)])`,
			unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD, unix.SYS_IO_SETUP)), "ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS"},
		{"the clock", nr(unix.SYS_CLOCK_SETTIME, `0, b"\0"*16`), "EPERM"},
		{"address layout", nr(unix.SYS_PERSONALITY, "0x40000"), "EPERM"},
		{"socket families", py(`print(*[try_(socket.socket, f, t, p) for f, t, p in ((17,3,0), (38,5,0), (40,1,0), (16,3,12), (16,3,0))])`),
			"EAFNOSUPPORT EAFNOSUPPORT EAFNOSUPPORT EAFNOSUPPORT done"},
		{"a user outside the map", py(`print(try_(os.setuid, 65536), try_(os.chown, "/tmp", 1879048192, 0))`), "EINVAL EINVAL"},
		{"capabilities", py(`print([l.split()[1] for l in open("/proc/self/status") if l.startswith(("CapBnd", "NoNewPrivs"))])`),
			"['00000000800405fb', '1']"},
		{"core dump", py(`import resource`, `for n in 0, -1: try_(resource.setrlimit, resource.RLIMIT_CORE, (n, n))`,
			`print(resource.getrlimit(resource.RLIMIT_CORE))`), "(1, 1)"},
		{"before others when memory is short", py(`print("score", open("/proc/self/oom_score_adj").read())`), "score 500"},
		{"another file under its loop device",
			py(`import fcntl`, `f = os.open("/dev/rbd/p/v", os.O_RDWR)`,
				`print(*[try_(fcntl.ioctl, f, n, b"\0" * 232) for n in (0x4C06, 0x4C04, 0x4C08, 0x4C01)])`), "EPERM EPERM EPERM EPERM"},
		{"all that the host's root may watch",
			py(`n = 0`, `while n < 200 and libc.inotify_init() >= 0: n += 1`, `print("instances", n)`), "instances 8"},
		{"user namespaces in its own", py(`print("most", open("/proc/sys/user/max_user_namespaces").read())`), "most 0"},
		{"a child of the worker's", "exec " + nr(unix.SYS_CLONE, "0x8000 | 17, 0, 0, 0, 0"), "EPERM"},
		{"files of the sandbox's", py(`print(try_(write, "/run/seedbed/calls.py"), try_(os.chmod, "/run/seedbed/calls.py", 0o777))`),
			"EROFS EROFS"},
	}
	tests = append(tests, escapesHere(py)...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out lines
			s := start(t, h, sh(t, &out, "until test -b /dev/rbd/p/v; do :; done; "+tt.script, func(s *Spec) {
				s.Files = map[string][]byte{"calls.py": []byte(calls)}
			}))
			if err := s.AddDevice("/dev/rbd/p/v", dev); err != nil {
				t.Fatal(err)
			}
			_ = s.Wait()
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			if !strings.Contains(text, tt.want) || strings.Contains(text, "MOUNTED") || strings.Contains(text, "done") &&
				!strings.Contains(tt.want, "done") {
				t.Errorf("want %q in\n%s", tt.want, text)
			}
		})
	}
	if now, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err != nil || string(now) != string(core) {
		t.Errorf("core_pattern is %q now, was %q: %v", now, core, err)
	}
}

// TestRace changes the target in memory while the broker works on the call: what
// it checked must be what it used.
func TestRace(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	s := start(t, h, sh(t, &out, `/usr/bin/python3 -c '
import ctypes, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("/tmp/a")
good, bad = b"/tmp/a\0", b"/usr/x\0"
buf = ctypes.create_string_buffer(good, 8)
end = time.monotonic() + 2
def flip():
    while time.monotonic() < end:
        ctypes.memmove(buf, bad, 7); ctypes.memmove(buf, good, 7)
def swap():
    os.symlink("/usr", "/tmp/l1"); os.mkdir("/tmp/l2")
    while time.monotonic() < end:
        os.rename("/tmp/l1", "/tmp/l3"); os.rename("/tmp/l2", "/tmp/l1"); os.rename("/tmp/l1", "/tmp/l2"); os.rename("/tmp/l3", "/tmp/l1")
for f in flip, swap: threading.Thread(target=f).start()
made = 0
while time.monotonic() < end or made == 0 and time.monotonic() < end + 60:
    for target in buf, b"/tmp/l1", b"/tmp/l2":
        if libc.mount(b"none", target, b"tmpfs", 0, None) == 0:
            made += 1
        libc.umount2(target, 2)
print("made", made > 0)
' 2>&1; grep -c " /usr" /proc/self/mountinfo; ls /usr/bin | wc -l`))
	if err := s.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	if text := out.String(); !strings.Contains(text, "stdout: made True") || !strings.Contains(text, "stdout: 1\n") {
		t.Errorf("want mounts, and one of /usr, in\n%s", text)
	}
}
