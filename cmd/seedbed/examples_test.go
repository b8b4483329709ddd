package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"seedbed/internal/cli"
)

// TestEveryCommandHasAnExample checks that the help of each command has examples which are right: of
// this command, with flags that it has and as many arguments as it takes. Lines after the first may
// be of another command.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	// Flags keep their values, so each example has a tree of its own.
	tree := func() *cobra.Command {
		a := &cli.App{Getenv: func(string) string { return "" }, Commands: commands}
		return a.Root()
	}
	for _, c := range cli.CommandsOf(tree()) {
		if !c.HasSubCommands() && c.Example == "" && !hidden(c) {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for i, line := range strings.Split(c.Example, "\n") {
			if c.Example == "" {
				break
			}
			path, err := tryExample(tree(), line)
			if err == nil && i == 0 && !c.HasSubCommands() && path != c.CommandPath() {
				err = errors.New("it is of " + path)
			}
			if err != nil {
				t.Errorf("%s: %q: %s", c.CommandPath(), line, err)
			}
		}
	}
}

func hidden(c *cobra.Command) bool { return c != nil && (c.Hidden || hidden(c.Parent())) }

// tryExample returns the command that an example runs, or what is wrong with it.
func tryExample(root *cobra.Command, line string) (path string, err error) {
	words, ok := shellWords(line)
	if !ok || len(words) == 0 || words[0] != "seedbed" || !strings.HasPrefix(line, "  seedbed") {
		return "", errors.New("it is not an indented command of seedbed")
	}
	found, rest, err := root.Find(words[1:])
	if err != nil {
		return "", err
	}
	if err := found.ParseFlags(rest); err != nil {
		return "", err
	}
	return found.CommandPath(), errors.Join(
		found.ValidateRequiredFlags(), found.ValidateFlagGroups(), found.ValidateArgs(found.Flags().Args()))
}

// shellWords returns the words of a command up to a pipe or a redirection.
func shellWords(line string) (words []string, ok bool) {
	var word strings.Builder
	begun, quote := false, rune(0)
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '|' || r == '<' || r == '>':
			end()
			return words, true
		case r == ' ' || r == '\n':
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return words, quote == 0
}

// TestExamplesAreUsed checks that no example is of a command that does not exist.
func TestExamplesAreUsed(t *testing.T) {
	t.Parallel()
	a := &cli.App{Getenv: func(string) string { return "" }, Commands: commands}
	var paths []string
	for _, c := range cli.CommandsOf(a.Root()) {
		paths = append(paths, strings.TrimPrefix(c.CommandPath(), "seedbed "))
	}
	for block := range strings.SplitSeq(examples, "\n\n") {
		if name, _, _ := strings.Cut(strings.TrimSpace(block), "\n"); !slices.Contains(paths, name) {
			t.Errorf("there are examples of %q, which is not a command", name)
		}
	}
}

// TestEveryCommandIsInAGroup checks that the help shows each command of the tool in a group.
func TestEveryCommandIsInAGroup(t *testing.T) {
	t.Parallel()
	a := &cli.App{Getenv: func(string) string { return "" }, Commands: commands}
	for _, c := range a.Root().Commands() {
		if c.GroupID == "" {
			t.Errorf("%s is in no group", c.CommandPath())
		}
	}
}
