package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// Resource is one kind of object, with what the commands need that list it and show one.
type Resource[T any] struct {
	// All returns the objects to list.
	All func(*client.Client, context.Context, []string) ([]T, error)
	// Some replaces All for a list of which the API returns a selection. Filters are the flags for it.
	Some    func(*client.Client, context.Context, []string, client.Selection) ([]T, error)
	Filters []Filter
	// Most is how many objects are shown unless a flag says otherwise; 0 means all.
	Most int
	// Head and Row are the list's columns. None is printed if there are no objects or, if Unmatched is
	// not empty and flags or the argument LIMIT limit the list, Unmatched. ARG in it stands for the
	// command's first argument.
	Head            []string
	Row             func(T) []string
	None, Unmatched string
	// Project returns the project of an object. If it is set, the list has a flag for those of all
	// projects, which it shows with their projects.
	Project func(T) string
	// One returns the object to show. Pairs are its properties.
	One   func(*client.Client, context.Context, []string) (T, error)
	Pairs func(*App, T) [][2]string
}

// Every makes a call without arguments one that ignores a command's arguments.
func Every[R any](call func(*client.Client, context.Context) (R, error)) func(*client.Client, context.Context, []string) (R, error) {
	return func(api *client.Client, ctx context.Context, _ []string) (R, error) { return call(api, ctx) }
}

// Named makes a call with a name one that takes it from a command's first argument.
func Named[R any](
	call func(*client.Client, context.Context, string) (R, error),
) func(*client.Client, context.Context, []string) (R, error) {
	return func(api *client.Client, ctx context.Context, args []string) (R, error) {
		return call(api, ctx, args[0])
	}
}

// Matching makes a call with a pattern one that takes it from a command's argument LIMIT.
func Matching[R any](
	call func(*client.Client, context.Context, seedbed.Scope, string) (R, error),
) func(*client.Client, context.Context, []string, client.Selection) (R, error) {
	return func(api *client.Client, ctx context.Context, args []string, s client.Selection) (R, error) {
		return call(api, ctx, s.Scope, strings.Join(args, ""))
	}
}

// Show returns a command that shows one object.
func (r Resource[T]) Show(a *App, use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if a.raw() {
			return Usagef("--format raw prints the names of a list: for one object, choose pretty or json")
		}
		thing, err := r.One(api, ctx, args)
		if err != nil {
			return err
		}
		return a.ShowPairs(nil, thing, r.Pairs(a, thing))
	})}
}

// Size returns a size as text, or an empty string for an unknown size, which is 0.
func Size(b seedbed.Bytes) string {
	return When(b != 0, b.String())
}

// Number returns n as text, or an empty string for 0.
func Number(n int) string { return When(n != 0, strconv.Itoa(n)) }

// When returns text if ok is true, and otherwise an empty string, which PrintPairs leaves out.
func When(ok bool, text string) string {
	if !ok {
		return ""
	}
	return text
}

// YesNo returns yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// YesOnly returns yes, or an empty string.
func YesOnly(b bool) string { return When(b, "yes") }

// TellMessage prints a message about a change, unless the change failed.
func (a *App) TellMessage(msg string, err error) error {
	return a.Tell(err, map[string]string{"message": msg}, "%s", OneLine(msg))
}

// Done returns the message about a change, unless the change failed.
func Done(err error, format string, args ...any) (string, error) {
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

// asking is a call of the API that makes a change. It returns a message about the change.
type asking func(ctx context.Context, api *client.Client, args []string) (string, error)

// Told returns the function of a command that makes one change and prints the message about it.
func (a *App) Told(ask asking) func(*cobra.Command, []string) error {
	return a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		return a.TellMessage(ask(ctx, api, args))
	})
}

// Tell prints v as JSON, or a line for people. If err is not nil, it only returns err.
func (a *App) Tell(err error, v any, format string, args ...any) error {
	switch {
	case err != nil:
		return err
	case a.JSON():
		return a.PrintJSON(v)
	}
	a.Say(format, args...)
	return nil
}

// Report prints a line for people. If err is not nil, it only returns err.
func (a *App) Report(err error, format string, args ...any) error {
	if err == nil {
		a.Say(format, args...)
	}
	return err
}

// ShowPairs prints v as JSON, or as pairs. If err is not nil, it only returns err.
func (a *App) ShowPairs(err error, v any, pairs [][2]string) error {
	switch {
	case err != nil:
		return err
	case a.JSON():
		return a.PrintJSON(v)
	}
	a.PrintPairs(pairs)
	return nil
}

// Confirmed makes a command ask for confirmation before it does anything, unless -y or --dry-run is given.
// question has a verb such as %[1]s for each argument, or a single %s for all.
func (a *App) Confirmed(question string, c *cobra.Command) *cobra.Command {
	var yes bool
	run := c.RunE
	c.RunE = a.Do(func(_ context.Context, args []string) error {
		if dry := c.Flags().Lookup("dry-run"); dry != nil && dry.Value.String() == "true" {
			return run(c, args)
		}
		if !yes {
			if err := absent(c, args); err != nil {
				return err
			}
		}
		if err := a.agree(yes, question, args); err != nil {
			return err
		}
		return run(c, args)
	})
	AddYes(c, &yes)
	return c
}

// absent returns seedbed.ErrNotFound if an argument of c names an object that does not exist. It
// takes the names from where the completion of the command line does. Without an answer of the API
// it knows nothing.
func absent(c *cobra.Command, args []string) error {
	if c.ValidArgsFunction == nil {
		return nil
	}
	for i, arg := range args {
		before := args[:i]
		if strings.HasSuffix(c.Use, "...") { // all are of one kind
			before = nil
		}
		if names, _ := c.ValidArgsFunction(c, before, arg); names != nil && !slices.ContainsFunc(names, func(name string) bool {
			return arg == name || arg == seedbed.ShortName(name) || arg == seedbed.Explicit(name)
		}) {
			return seedbed.Errorf(seedbed.ErrNotFound, "%s %s: %q does not exist", c.Parent().Name(), c.Name(), arg)
		}
	}
	return nil
}

// AddYes adds --yes, which is for Sure and the like, to c.
func AddYes(c *cobra.Command, yes *bool) {
	c.Flags().BoolVarP(yes, "yes", "y", false, "do not ask for confirmation")
}

// agree asks whether an object may be removed.
func (a *App) agree(yes bool, question string, args []string) error {
	if yes {
		return nil
	}
	quoted := make([]any, len(args))
	for i, arg := range args {
		quoted[i] = fmt.Sprintf("%q", arg)
	}
	if strings.Count(question, "%s") == 1 { // several objects of one kind
		quoted = []any{strings.Join(Each(args, func(arg string) string { return fmt.Sprintf("%q", arg) }), ", ")}
	}
	what := fmt.Sprintf(question, quoted...)
	if !a.Terminal {
		return Usagef("%s: add -y (--yes) to confirm", strings.ToLower(what[:1])+what[1:])
	}
	if !a.Agreed(what + "?") {
		return fmt.Errorf("nothing was removed")
	}
	return nil
}

// Agreed asks a question on a terminal, and reports whether the answer is yes.
func (a *App) Agreed(question string) bool {
	answer, err := a.Answer(question + " [y/N] ")
	return err == nil && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"))
}

// Answer asks a question on a terminal, and returns the answer.
func (a *App) Answer(question string) (string, error) {
	fmt.Fprint(a.Err, question)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	return strings.TrimSpace(line), err
}

// Sure asks whether an action may be done, unless yes is set.
func (a *App) Sure(yes bool, what, consequence string) error {
	if yes {
		return nil
	}
	if !a.Terminal {
		return Usagef("%s: %s Add -y (--yes) to confirm", what, consequence)
	}
	if !a.Agreed(strings.ToUpper(what[:1]) + what[1:] + "? " + consequence) {
		return fmt.Errorf("nothing was done")
	}
	return nil
}

// JobAction returns a command that starts a job and follows it.
func (a *App) JobAction(use, short string, begin func(*client.Client, context.Context, []string) (seedbed.Receipt, error)) *cobra.Command {
	var w WaitFlags
	c := &cobra.Command{
		Use: use, Short: short,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			receipt, err := begin(api, ctx, args)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	w.AddJob(a, c)
	return c
}

// RemoveCommand returns a command that removes the objects that its arguments name. question and
// done have a %s for the name.
func (a *App) RemoveCommand(use, short, question, done string, remove func(*client.Client, context.Context, string) error) *cobra.Command {
	return a.Confirmed(question, &cobra.Command{
		Use: use + "...", Short: short,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			return ForEach(args, func(name string) error { return a.Report(remove(api, ctx, name), done, name) })
		}),
	})
}

// Removal returns a command that removes, after confirmation, the objects that its arguments name.
// question has a verb such as %[1]s for each argument.
func (a *App) Removal(use, short, question string, ask asking, names ...NameLister) *cobra.Command {
	return a.Confirmed(question, &cobra.Command{
		Use: use, Short: short,
		RunE:              a.Told(ask),
		ValidArgsFunction: a.Completion(names...),
	})
}
