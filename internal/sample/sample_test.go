package sample

import (
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	cases := []int{1, 2, 3, 4, 5, 6, 7}
	seen := map[int]bool{}
	for seed := range uint64(200) {
		got := choose(cases, 3, seed, "test")
		if len(got) != 3 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 3 {
			t.Fatalf("seed %d: %v", seed, got)
		}
		if again := choose(cases, 3, seed, "test"); !slices.Equal(got, again) {
			t.Errorf("seed %d: %v and then %v", seed, got, again)
		}
		for _, c := range got {
			seen[c] = true
		}
	}
	if len(seen) != len(cases) {
		t.Errorf("only %v had a turn", seen)
	}
	if slices.Equal(choose(cases, 3, 1, "test"), choose(cases, 3, 1, "other")) &&
		slices.Equal(choose(cases, 3, 2, "test"), choose(cases, 3, 2, "other")) {
		t.Error("two tests get the same choice")
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		long string
		want int
	}{{"", 2}, {"1", 4}} {
		t.Setenv("SEEDBED_LONG", c.long)
		if got := Of(t, []string{"a", "b", "c", "d"}, 2); len(got) != c.want {
			t.Errorf("SEEDBED_LONG=%q: %v", c.long, got)
		}
	}
}
