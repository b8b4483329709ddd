package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The names under which the worker's own binary runs again; see Init.
const (
	wardenName   = "seedbed-sandbox-warden"
	launcherName = "seedbed-sandbox-launcher"
)

// plan is what the warden reads before anything else.
type plan struct {
	ID   string
	Base uint32 // the first outside user id; 0 when privileged
	Dir  string // where the new root is mounted while it is built
	// Show and Hide are Config's, Files is Spec's.
	Show, Hide []string
	Files      map[string][]byte
	Tmp        int64
	Network    bool
	Privileged bool
	// NoDevices: no device cgroup holds the program, so volumes are mounted nodev.
	NoDevices bool
}

// launch is what the launcher reads before anything else.
type launch struct {
	Argv, Env  []string
	Processes  int   // how many processes there may be, and
	Memory     int64 // address space of each, where no cgroup bounds them; else 0
	Channel    bool
	Privileged bool
}

// pair of processes that a sandbox starts with.
type spawned struct{ warden, launcher int }

// spawn makes the namespaces and starts the two processes in them: the warden, which is process 1
// and runs as root, and the launcher in its own user namespace. All other namespaces belong to the
// host's user namespace. So root inside has no rights over them, even if the filter has a hole.
func spawn(p plan, l launch, wardenFiles, launcherFiles []*os.File) (s spawned, err error) {
	return s, onThread(func() error {
		flags := unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWPID
		if !p.Network {
			flags |= unix.CLONE_NEWNET
		}
		if err := unix.Unshare(flags); err != nil {
			return fmt.Errorf("make namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("part from the host's mounts: %w", err)
		}
		// If the worker must not set a host name, the script sees the host's.
		_ = unix.Sethostname([]byte("script"))
		if !p.Network {
			if err := loopbackUp(); err != nil {
				return err
			}
		}
		if !p.Privileged {
			if err := bound(wardenCaps); err != nil {
				return err
			}
		}
		env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2"}
		if path, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
			env = append(env, "LD_LIBRARY_PATH="+path)
		}
		s.warden, err = syscall.ForkExec("/proc/self/exe", []string{wardenName}, &syscall.ProcAttr{
			Dir: "/", Env: env, Files: numbers(wardenFiles),
			Sys: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{}}, // and no other groups
		})
		if err != nil {
			return fmt.Errorf("start the warden: %w", err)
		}
		sys := &syscall.SysProcAttr{Setsid: true}
		if !p.Privileged {
			ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(p.Base), Size: span}}
			sys.Cloneflags = unix.CLONE_NEWUSER
			sys.UidMappings, sys.GidMappings, sys.GidMappingsEnableSetgroups = ids, ids, true
			sys.Credential = &syscall.Credential{}
		}
		s.launcher, err = syscall.ForkExec("/proc/self/exe", []string{launcherName}, &syscall.ProcAttr{
			Dir: "/", Env: env, Files: numbers(launcherFiles), Sys: sys,
		})
		if err != nil {
			return fmt.Errorf("start the launcher: %w", err)
		}
		return nil
	})
}

func numbers(files []*os.File) (fds []uintptr) {
	for _, f := range files {
		fds = append(fds, f.Fd())
	}
	return fds
}

// onThread runs f on a thread that ends with it, because f changes attributes of the thread. It does
// not use the first thread of the process, which never ends and would keep the sandbox's mounts in
// use.
func onThread(f func() error) error {
	result, done := make(chan error, 1), make(chan struct{})
	defer close(done)
	var attempt func()
	attempt = func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			result <- f()
			return // locked: the thread ends
		}
		go attempt()
		<-done
		runtime.UnlockOSThread()
	}
	go attempt()
	return <-result
}

// loopbackUp brings up lo in this thread's network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up the loopback: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring up the loopback: %w", err)
	}
	return nil
}
