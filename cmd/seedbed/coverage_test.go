package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/cli"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ran matches the commands that a script runs: the text after the tool's name.
var ran = regexp.MustCompile(`\bseedbed((?: +[^|;>&\n]+)+)`)

// TestEveryCommandHasAScript checks that a script of testdata runs each command of the tree that
// does something.
func TestEveryCommandHasAScript(t *testing.T) {
	t.Parallel()
	a := &cli.App{Getenv: func(string) string { return "" }, Commands: commands}
	root := a.Root()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	seen := map[*cobra.Command]bool{}
	err := fs.WalkDir(os.DirFS("testdata"), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(filepath.Join("testdata", path))
		if err != nil {
			return err
		}
		script, _, _ := strings.Cut("\n"+string(text), "\n-- ")
		for line := range strings.Lines(script) {
			words := strings.Fields(line)
			if len(words) == 0 || !slices.Contains([]string{"exec", "status", "!"}, words[0]) {
				continue
			}
			for _, m := range ran.FindAllStringSubmatch(line, -1) {
				if c, _, err := root.Find(strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(m[1]))); err == nil {
					seen[c] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	leaves := 0
	for _, c := range cli.CommandsOf(root) {
		if c.HasSubCommands() || !c.Runnable() || c.Name() == "help" {
			continue
		}
		leaves++
		if !seen[c] {
			t.Errorf("no script of testdata runs %q", c.CommandPath())
		}
	}
	if leaves < 100 {
		t.Errorf("only %d commands were found", leaves)
	}
}

// TestEveryKindHasStages checks that the scripts see stages of each kind of job.
func TestEveryKindHasStages(t *testing.T) {
	t.Parallel()
	for _, kind := range seedbed.JobKinds() {
		if len(stages[kind]) == 0 {
			t.Errorf("a %s job has no stages: add them to stages in world_test.go", kind)
		}
	}
}

// TestFlagsShadowNone: a flag of a command does not have the name of one of every command, with which it would be mistaken, but for the
// format where a command has none, and two that say of themselves whose URL they are.
func TestFlagsShadowNone(t *testing.T) {
	t.Parallel()
	others := []string{"seedbed endpoint set --url", "seedbed hook send --url"}
	root := (&cli.App{Commands: commands, Getenv: func(string) string { return "" }}).Root()
	for _, c := range cli.CommandsOf(root) {
		if c == root {
			continue
		}
		own := c.Flags().Lookup("format") != nil
		c.Flags().VisitAll(func(f *pflag.Flag) {
			of := root.PersistentFlags().Lookup(f.Name)
			if of != nil && of != f && f.Usage != of.Usage && !slices.Contains(others, c.CommandPath()+" --"+f.Name) &&
				(!own || f.Name != "format" && f.Name != "output") {
				t.Errorf("%s --%s (%s) shadows the one of every command (%s)", c.CommandPath(), f.Name, f.Usage, of.Usage)
			}
		})
	}
}
