package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var programs struct {
	sync.Once
	dir string
	err error
}

// Programs is a directory with the four programs, built from the tree once per
// test binary.
func Programs(t testing.TB) string {
	t.Helper()
	programs.Do(func() {
		programs.dir = filepath.Join(Root(), "bin", "lab")
		build := func(cgo string, args ...string) {
			if programs.err != nil {
				return
			}
			cmd := exec.Command("go", append([]string{"build", "-o", programs.dir + "/"}, args...)...)
			cmd.Dir = Root()
			cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
			if out, err := cmd.CombinedOutput(); err != nil {
				programs.err = fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
			}
		}
		if programs.err = os.MkdirAll(programs.dir, 0o755); programs.err != nil {
			return
		}
		build("0", "./cmd/seedbedd", "./cmd/seedbed-metadata", "./cmd/seedbed")
		build("1", "-tags", "libvirt,ceph,pacific", "./cmd/seedbed-worker")
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}
