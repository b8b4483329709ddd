//go:build integration

package sandbox

// escapesHere are the attempts that this processor alone offers.
func escapesHere(py func(...string) string) []struct{ name, script, want string } {
	return []struct{ name, script, want string }{
		{"x32 calls", py(`print(call(0x40000000 | 39))`), "ENOSYS"},
		{"ports", py(`print(call(172, 3), call(173, 0, 1, 1))`), "EPERM EPERM"},
		{"i386 calls", py(
			`import mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")`,
			`print("before", flush=True)`,
			`ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()`,
			`print("after")`,
		) + "; echo status $?", "stdout: status 159"},
	}
}
