// Package sample chooses which cases of a large matrix a test takes. `make test` takes a few of
// each, chosen by a seed, so that over time every case has its turn; `make test-long` takes all.
//
// SEEDBED_LONG=1 takes all cases. SEEDBED_SEED is the seed; without it each run has its own. A test
// that fails prints its seed.
package sample

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Long reports whether tests take all cases.
func Long() bool { return os.Getenv("SEEDBED_LONG") == "1" }

// seed returns the seed of this run.
var seed = sync.OnceValues(func() (uint64, error) {
	if text := os.Getenv("SEEDBED_SEED"); text != "" {
		return strconv.ParseUint(text, 10, 64)
	}
	return uint64(time.Now().UnixNano()), nil
})

// Of returns n of the cases, in their order: all if there are no more, or if tests take all. The
// choice depends on the seed and on the test's name, not on which other tests run.
func Of[T any](t testing.TB, cases []T, n int) []T {
	t.Helper()
	if Long() || len(cases) <= n {
		return cases
	}
	s, err := seed()
	if err != nil {
		t.Fatalf("SEEDBED_SEED: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ran %d of %d cases: SEEDBED_SEED=%d runs the same ones, SEEDBED_LONG=1 runs all", n, len(cases), s)
		}
	})
	return choose(cases, n, s, t.Name())
}

// Rand returns a source of random numbers that depends on the seed and on the test's name.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	s, err := seed()
	if err != nil {
		t.Fatalf("SEEDBED_SEED: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SEEDBED_SEED=%d does the same again", s)
		}
	})
	return source(s, t.Name())
}

func source(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func choose[T any](cases []T, n int, seed uint64, name string) []T {
	rng := source(seed, name)
	chosen := make([]T, 0, n)
	for i, c := range cases {
		// Each remaining case is equally likely to be chosen.
		if rng.IntN(len(cases)-i) < n-len(chosen) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}
