//go:build integration

package sandbox

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
)

// escapesHere are the attempts that this processor alone offers.
func escapesHere(py func(...string) string) []struct{ name, script, want string } {
	i386 := []string{
		`import mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")`,
		`print("before", flush=True)`,
		`ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()`,
		`print("after")`,
	}
	status := "stdout: status 159" // SIGSYS, of the filter
	err := exec.Command("python3", "-c", "import ctypes\n"+strings.Join(i386, "\n")).Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGSEGV {
		status = "stdout: status 139" // this kernel has no such calls, as those of some virtual machines
	}
	return []struct{ name, script, want string }{
		{"x32 calls", py(`print(call(0x40000000 | 39))`), "ENOSYS"},
		{"ports", py(`print(call(172, 3), call(173, 0, 1, 1))`), "EPERM EPERM"},
		{"i386 calls", py(i386...) + "; echo status $?", status},
	}
}
