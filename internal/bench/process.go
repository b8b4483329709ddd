package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// userHZ is the unit of the times in /proc/PID/stat, USER_HZ (proc(5)); every Linux of today has
// 100.
const userHZ = 100

// CPU is the processor time, user and system, that a process has used so far.
func CPU(pid int) (time.Duration, error) {
	f, err := stat(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	return f.own, nil
}

// Siblings is the processor time that a process, its parent and all others that the parent has
// started have used so far, such as those of a database server.
func Siblings(pid int) (time.Duration, error) {
	self, err := stat(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	var total time.Duration
	err = each(func(pid int, f times) {
		if f.parent == self.parent {
			total += f.own + f.children
		}
		if pid == self.parent {
			total += f.own + f.children // of those that have ended
		}
	})
	return total, err
}

// Others is the processor time that all processes but some have used so far, with those that they
// started and waited for. The kernel's own do not count: they work for every sender of packets.
func Others(except ...int) (time.Duration, error) {
	var total time.Duration
	err := each(func(pid int, f times) {
		if pid != kthreadd && f.parent != kthreadd && !slices.Contains(except, pid) {
			total += f.own + f.children
		}
	})
	return total, err
}

// each visits every process. It skips one that ends during that, since its parent then has its
// time.
func each(look func(pid int, f times)) error {
	dir, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if f, err := stat(name); err == nil {
			look(pid, f)
		}
	}
	return nil
}

// kthreadd is the parent of the kernel's threads.
const kthreadd = 2

type times struct {
	parent        int
	own, children time.Duration
}

// stat reads /proc/PID/stat (proc_pid_stat(5)).
func stat(pid string) (times, error) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return times{}, err
	}
	// The second field is the name, in parentheses, and may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 15 {
		return times{}, fmt.Errorf("/proc/%s/stat has %d fields behind the name", pid, len(fields))
	}
	var t times
	var ticks [4]int64 // utime, stime, cutime, cstime
	t.parent, err = strconv.Atoi(fields[1])
	for i := range ticks {
		var e error
		ticks[i], e = strconv.ParseInt(fields[11+i], 10, 64)
		err = errors.Join(err, e)
	}
	const tick = time.Second / userHZ
	t.own, t.children = time.Duration(ticks[0]+ticks[1])*tick, time.Duration(ticks[2]+ticks[3])*tick
	return t, err
}

// RSS is the resident memory of a process in bytes, VmRSS of /proc/PID/status.
func RSS(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(b, []byte("\nVmRSS:"))
	if !ok {
		return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
	}
	fields := bytes.Fields(rest)
	if len(fields) < 2 || string(fields[1]) != "kB" {
		return 0, fmt.Errorf("/proc/%d/status: VmRSS is not in kB", pid)
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return n << 10, err
}
