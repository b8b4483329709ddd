package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"seedbed/internal/cli"
)

// TestPlaceholdersAreNames checks that each flag's value has a name of its own in the help, in capital
// letters. Pflag takes a word of the flag's description, or the type, which is a lower-case word.
func TestPlaceholdersAreNames(t *testing.T) {
	t.Parallel()
	a := &cli.App{Getenv: func(string) string { return "" }, Commands: commands}
	for _, c := range cli.CommandsOf(a.Root()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); !f.Hidden && name != strings.ToUpper(name) {
				t.Errorf("%s --%s %s: want a noun in capital letters", c.CommandPath(), f.Name, name)
			}
		})
	}
}
