//go:build integration

package sandbox

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkBare and BenchmarkSandboxed are the cost of a Python interpreter that
// does nothing, without and with everything around it, cleaning up included.
func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/usr/bin/python3", "-c", "pass").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSandboxed(b *testing.B) {
	h, err := Open(Config{Dir: filepath.Join(b.TempDir(), "sandbox")})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := h.Start(context.Background(), Spec{
			ID: "bench", Argv: []string{"/usr/bin/python3", "-c", "pass"}, Env: env, Output: func(string, []byte) {},
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Wait(); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
