package worker

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryEffectIsHandled checks that the worker carries out every effect that package effects
// declares.
func TestEveryEffectIsHandled(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../effects/*.go")
	if err != nil {
		t.Fatal(err)
	}
	declaration := regexp.MustCompile(`(?m)^\t\w+ += (?:Effect|Order|Query|Stream|Channel)(?:\[.*\])?\{"([a-z-]+)"\}$`)
	var declared []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range declaration.FindAllSubmatch(text, -1) {
			declared = append(declared, string(found[1]))
		}
	}
	slices.Sort(declared)
	handled := slices.Sorted(maps.Keys(New(Config{Hypervisor: struct{ Hypervisor }{}}).table))
	if diff := cmp.Diff(declared, handled); diff != "" {
		t.Errorf("effects (-declared in package effects +handled by the worker):\n%s", diff)
	}
}
