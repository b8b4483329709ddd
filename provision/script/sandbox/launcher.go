package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// launchProgram is the launcher's whole life: it gives up everything that the program must not
// have, and becomes the program.
func launchProgram(l launch) error {
	runtime.LockOSThread() // capabilities and the filter belong to a thread, and exec keeps those of the caller
	if !l.Privileged {
		bequeath()
	}
	// Next the warden changes the root, for this process too.
	if err := tellFD(controlFD, message{Op: opHello}); err != nil {
		return fmt.Errorf("report to the worker: %w", err)
	}
	m, _, err := hearFD(controlFD)
	if err != nil {
		return fmt.Errorf("hear the worker: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat("/", &st); err != nil {
		return err
	}
	if st.Dev != m.Dev || st.Ino != m.Ino {
		return fmt.Errorf("the root directory is not the sandbox's")
	}
	if err := unix.Chdir("/tmp"); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := rlimits(l); err != nil {
		return err
	}
	// A session keyring of its own, if the kernel has keyrings, instead of the worker's.
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	// The cgroup that it was put into becomes the root of those that it sees.
	_ = unix.Unshare(unix.CLONE_NEWCGROUP)

	ready := message{Op: opReady}
	if l.Privileged {
		err = tellFD(controlFD, ready)
	} else {
		err = confine(ready)
	}
	if err != nil {
		return err
	}
	if _, _, err := hearFD(controlFD); err != nil {
		return fmt.Errorf("hear the worker: %w", err)
	}
	// The channel replaces the socket to the worker, which moves away and closes with exec.
	back, err := unix.FcntlInt(controlFD, unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return err
	}
	if l.Channel {
		err = unix.Dup3(channelFD, controlFD, 0)
	} else {
		err = unix.Close(controlFD)
	}
	if err != nil {
		return err
	}
	if l.Memory > 0 { // last, because this program itself reserves much
		if err := rlimit(unix.RLIMIT_AS, uint64(l.Memory)); err != nil {
			return err
		}
	}
	err = syscall.Exec(l.Argv[0], l.Argv, l.Env)
	if terr := tellFD(back, message{Op: opFailed, Text: err.Error()}); terr != nil {
		return errors.Join(err, terr)
	}
	os.Exit(127)
	return nil
}

// bequeath sets the limits of the user namespace while the host's /proc is still visible. What is
// counted for a user inside is also counted for the creator of the namespace, the host's root: a
// script could use up all inotify watches of root. Forbidding namespaces is a second line of
// defence behind the filter. A host whose /proc/sys is read-only does without.
func bequeath() {
	for name, most := range map[string]string{
		"max_inotify_instances": "8", "max_inotify_watches": "1024", "max_fanotify_groups": "0",
		"max_user_namespaces": "0", "max_mnt_namespaces": "0", "max_pid_namespaces": "0", "max_net_namespaces": "0",
		"max_ipc_namespaces": "0", "max_uts_namespaces": "0", "max_time_namespaces": "0", "max_cgroup_namespaces": "1", // its own
	} {
		_ = set("/proc/sys/user/"+name, most)
	}
}

// confine drops capabilities and installs the filter on this thread. This cannot be reverted.
func confine(ready message) error {
	if err := bound(programCaps); err != nil {
		return err
	}
	if err := hold(programCaps); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	listener, err := installFilter(filterCode())
	if err != nil {
		return err
	}
	if err := tellFD(controlFD, ready, listener); err != nil {
		return fmt.Errorf("hand over the filter's listener: %w", err)
	}
	return unix.Close(listener)
}

// rlimits sets the limits that cgroups do not have.
func rlimits(l launch) error {
	limits := []struct {
		what  int
		value uint64
	}{
		// 1 and not 0: only this value also keeps a core dump from the host's own handler
		// (core(5)), which runs as root.
		{unix.RLIMIT_CORE, 1},
		{unix.RLIMIT_NOFILE, 65536},
		{unix.RLIMIT_NPROC, uint64(l.Processes)},
		{unix.RLIMIT_MEMLOCK, 8 << 20},
		{unix.RLIMIT_MSGQUEUE, 1 << 20},
		{unix.RLIMIT_RTPRIO, 0},
		{unix.RLIMIT_NICE, 0},
	}
	for _, r := range limits {
		if r.what == unix.RLIMIT_NPROC && (l.Privileged || l.Processes == 0) {
			continue // privileged: it would count all of root's processes
		}
		if err := rlimit(r.what, r.value); err != nil {
			return err
		}
	}
	return nil
}

// rlimit sets a resource limit, unless it is already lower.
func rlimit(what int, value uint64) error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(what, &have); err != nil {
		return fmt.Errorf("read resource limit %d: %w", what, err)
	}
	value = min(value, have.Max)
	if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
		return fmt.Errorf("set resource limit %d: %w", what, err)
	}
	return nil
}
