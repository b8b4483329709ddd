package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seedbed"
)

// maxSuggestions is how many words an error suggests at most.
const maxSuggestions = 3

// nearest returns the words that may have been meant by a mistyped text: those that need the fewest
// edits, and otherwise those that begin with it.
func nearest(text string, words []string) []string {
	most := 2
	if utf8.RuneCountInString(text) < 4 {
		most = 1
	}
	var found []string
	for _, w := range words {
		switch d := edits(strings.ToLower(text), strings.ToLower(w)); {
		case d > most || d >= utf8.RuneCountInString(w):
		case d < most:
			most, found = d, []string{w}
		default:
			found = append(found, w)
		}
	}
	if found == nil && text != "" {
		found = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, text) })
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), maxSuggestions)]
}

// edits returns how many letters must be inserted, removed, replaced, or exchanged with their
// neighbour, to make b of a.
func edits(a, b string) int {
	from, to := []rune(a), []rune(b)
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range to {
		rows[0][j+1] = j + 1
	}
	for i := range from {
		for j := range to {
			differ := 1
			if from[i] == to[j] {
				differ = 0
			}
			d := min(rows[i][j+1]+1, rows[i+1][j]+1, rows[i][j]+differ)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(from)][len(to)]
}

// didYouMean returns a question for the end of an error, or an empty string without suggestions.
func didYouMean(suggested []string) string {
	if len(suggested) == 0 {
		return ""
	}
	quoted := Each(suggested, func(s string) string { return fmt.Sprintf("%q", s) })
	return "did you mean " + strings.Join(quoted, " or ") + "?"
}

// unknownCommand returns the error for a subcommand that c does not have.
func unknownCommand(c *cobra.Command, name string) error {
	see := fmt.Sprintf("see \"%s --help\"", c.CommandPath())
	suggested := meantCommands(c, name)
	if len(suggested) == 0 {
		return Usagef("unknown command %q: %s", name, see)
	}
	return Usagef("unknown command %q: %s Or %s", name, didYouMean(suggested), see)
}

// meantCommands returns the paths of the commands that may have been meant by name below c.
func meantCommands(c *cobra.Command, name string) []string {
	words := map[string]*cobra.Command{}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			for _, word := range slices.Concat([]string{sub.Name()}, sub.Aliases, sub.SuggestFor) {
				words[word] = sub
			}
		}
	}
	// An instance's command may be given without "vm", and one of the root with it.
	other := c.Root()
	if vm, _, err := other.Find([]string{"vm"}); err == nil && c == other {
		other = vm
	}
	for _, sub := range other.Commands() {
		known := slices.Concat([]string{sub.Name()}, sub.Aliases, sub.SuggestFor)
		if other != c && sub.IsAvailableCommand() && slices.Contains(known, name) && words[name] == nil {
			words[name] = sub
		}
	}
	var all []string
	for word := range words {
		all = append(all, word)
	}
	slices.Sort(all)
	var paths []string
	for _, word := range nearest(name, all) {
		if path := words[word].CommandPath(); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// flagError adds the flags that may have been meant to the error for an unknown flag, and says what
// is expected of a flag whose value is not a number, duration or size.
func flagError(c *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		switch wrong.GetFlag().Value.Type() {
		case "int", "int64":
			return fmt.Errorf("--%s %q: expected a whole number", wrong.GetFlag().Name, wrong.GetValue())
		case "float64":
			return fmt.Errorf("--%s %q: expected a number", wrong.GetFlag().Name, wrong.GetValue())
		case "duration", "SIZE": // whose errors name the value
			return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
		}
		return err
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var all []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f.Name)
		}
	})
	meant := Each(nearest(unknown.GetSpecifiedName(), all), func(name string) string { return "--" + name })
	if len(meant) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, didYouMean(meant))
}

// meantNames returns the names of objects that may have been meant by arguments and flags of c that
// name none. It asks for the names as the completion of the command line does.
func meantNames(ctx context.Context, c *cobra.Command, err error) (meant []string) {
	if c == nil || !errors.Is(err, seedbed.ErrNotFound) || ctx.Err() != nil {
		return nil
	}
	near := func(complete cobra.CompletionFunc, before []string, text string) {
		first, size := utf8.DecodeRuneInString(text)
		if complete == nil || first == utf8.RuneError || size == 0 {
			return
		}
		// The names are limited to those with that first letter, because there may be many.
		names, _ := complete(c, before, string(first))
		if !slices.Contains(names, text) {
			meant = append(meant, nearest(text, names)...)
		}
	}
	args := c.Flags().Args()
	for i, arg := range args {
		near(c.ValidArgsFunction, args[:i], arg)
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if complete, ok := c.GetFlagCompletionFunc(f.Name); ok && f.Value.Type() == "string" {
			near(complete, nil, f.Value.String())
		}
	})
	return meant
}
