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
