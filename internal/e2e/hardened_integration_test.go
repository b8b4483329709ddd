//go:build integration && libvirt

package e2e

import "debug/elf"

// hardened checks that programs are position-independent, and have no tables of addresses that
// could be changed while they run.
func (in *installation) hardened(programs ...string) {
	in.t.Helper()
	for _, program := range programs {
		f, err := elf.Open(in.Path(program))
		if err != nil {
			in.t.Fatal(err)
		}
		defer f.Close()
		flags, err := f.DynValue(elf.DT_FLAGS_1)
		const want = uint64(elf.DF_1_PIE | elf.DF_1_NOW)
		if err != nil || len(flags) != 1 || flags[0]&want != want || f.Type != elf.ET_DYN {
			in.t.Errorf("/%s is %s with the flags %x (%v), expected a position-independent executable that is bound at its start",
				program, f.Type, flags, err)
		}
	}
}
