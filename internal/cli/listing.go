package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seedbed"
	"seedbed/api/client"
)

// Filter is a flag of a list. It selects objects by the parameter of that name of the API's list.
type Filter struct {
	Name, Usage string
	// Words are the values that the flag accepts; without any, it accepts every text.
	Words []string
	// Past is set for a flag that accepts a time, or a duration before now.
	Past bool
}

// NameFilter selects objects by the start of their name.
func NameFilter() Filter {
	return Filter{Name: "name", Usage: "only with names that start with `TEXT`"}
}

// NodeFilter selects what is on one node.
func NodeFilter() Filter { return Filter{Name: "node", Usage: "only on this `NODE`"} }

// EveryNodeFilter selects what is on one node, of a list that the workers answer.
func EveryNodeFilter() Filter {
	return Filter{Name: "node", Usage: "only on this `NODE`; without it, every node must answer"}
}

// WordFilter selects objects by one of some words.
func WordFilter[W ~string](name, usage string, words []W) Filter {
	texts := Each(words, func(w W) string { return string(w) })
	return Filter{Name: name, Usage: usage + ": " + strings.Join(texts, ", "), Words: texts}
}

// SinceFilter selects what happened since a time.
func SinceFilter() Filter {
	return Filter{Name: "since", Usage: "only since this `TIME`, or a duration before now", Past: true}
}

// AllProjects is the name of the flag for the objects of all projects.
const AllProjects = "all-projects"

// addListFlags adds to c the flags that select objects of a list: the filters, and how many to show
// unless all are shown.
func addListFlags(a *App, c *cobra.Command, most int, filters []Filter) {
	flags := c.Flags()
	for _, f := range filters {
		flags.String(f.Name, "", f.Usage)
		if len(f.Words) > 0 {
			a.CompleteFlag(c, f.Name, fixed(f.Words))
		}
	}
	limit := flags.IntP("limit", "n", most, "show at most `N`; 0 shows all")
	flags.IntVar(limit, "lines", most, "same as --limit")
	_ = flags.MarkHidden("lines") // the flag was added above
	flags.Bool("all", false, "show all, however many there are")
	c.MarkFlagsMutuallyExclusive("limit", "lines", "all")
}

// selectionOf returns what the flags of a list select. A limit of 0 means all.
func selectionOf(a *App, c *cobra.Command, filters []Filter) (client.Selection, error) {
	s := client.Selection{Where: map[string]string{}}
	for _, f := range filters {
		text := c.Flag(f.Name).Value.String()
		if f.Past && text != "" {
			at, err := ParsePast(f.Name, text, a.Now())
			if err != nil {
				return s, err
			}
			text = at.UTC().Format(time.RFC3339)
		}
		s.Where[f.Name] = text
	}
	if f := c.Flag(AllProjects); f != nil && f.Value.String() == "true" {
		s.Scope = seedbed.AllProjects()
	}
	n, err := strconv.Atoi(c.Flag("limit").Value.String())
	if err != nil || n < 0 {
		return s, Usagef("--limit %s: expected how many to show at most, or 0 for all", c.Flag("limit").Value)
	}
	if c.Flag("all").Value.String() != "true" {
		s.Limit = n
	}
	return s, nil
}

// List returns a command that lists objects. With the argument [LIMIT], it lists those whose names
// match.
func (r Resource[T]) List(a *App, use, short string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	if matchesNames(c) {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	addListFlags(a, c, r.Most, r.Filters)
	if r.Project != nil {
		c.Flags().Bool(AllProjects, false, "those of all projects, which only an admin of the installation sees")
	}
	c.RunE = r.Lister(a, c)
	return c
}

// matchesNames reports whether a list has the argument [LIMIT].
func matchesNames(c *cobra.Command) bool { return strings.HasSuffix(c.Use, "[LIMIT]") }

// Lister returns the function of the command c, which List has made, that lists the objects. If not all
// are shown, it says so on standard error.
func (r Resource[T]) Lister(a *App, c *cobra.Command) func(*cobra.Command, []string) error {
	return a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		s, err := selectionOf(a, c, r.Filters)
		if err != nil {
			return err
		}
		things, err := r.read(api, ctx, args, s)
		if err != nil {
			return err
		}
		more := s.Limit > 0 && len(things) > s.Limit
		if more {
			things = things[:s.Limit]
		}
		none := r.None
		if r.Unmatched != "" && (limited(c) || matchesNames(c) && len(args) > 0) {
			none = r.Unmatched
		}
		if len(args) > 0 {
			none = strings.ReplaceAll(none, "ARG", args[0])
		}
		head, row := r.Head, r.Row
		if s.Scope == seedbed.AllProjects() {
			head = append([]string{"project"}, head...)
			row = func(v T) []string { return append([]string{r.Project(v)}, r.Row(v)...) }
		}
		if err := PrintList(a, things, none, head, row); err != nil {
			return err
		}
		if more && !a.Flags.Quiet {
			fmt.Fprintln(a.Err, "… more: --all")
		}
		return nil
	})
}

// read returns the objects that s selects and, to find out whether there are more, one beyond its limit.
func (r Resource[T]) read(api *client.Client, ctx context.Context, args []string, s client.Selection) ([]T, error) {
	if r.Some == nil {
		return r.All(api, ctx, args)
	}
	if s.Limit > 0 {
		s.Limit++
	}
	return r.Some(api, ctx, args, s)
}

// limited reports whether flags of a list were given that leave out objects, other than the last ones.
func limited(c *cobra.Command) (given bool) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		given = given || f.Changed && !slices.Contains([]string{"limit", "lines", "all"}, f.Name)
	})
	return given
}

// Selected makes a call with a selection one that ignores a command's arguments.
func Selected[R any](
	call func(*client.Client, context.Context, client.Selection) (R, error),
) func(*client.Client, context.Context, []string, client.Selection) (R, error) {
	return func(api *client.Client, ctx context.Context, _ []string, s client.Selection) (R, error) {
		return call(api, ctx, s)
	}
}

// SelectedOf makes a call with a name and a selection one that takes the name from a command's first
// argument.
func SelectedOf[R any](
	call func(*client.Client, context.Context, string, client.Selection) (R, error),
) func(*client.Client, context.Context, []string, client.Selection) (R, error) {
	return func(api *client.Client, ctx context.Context, args []string, s client.Selection) (R, error) {
		return call(api, ctx, args[0], s)
	}
}
