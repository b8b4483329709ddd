package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// List prints all objects of one kind.
func List[T any](ctx context.Context, a *App, all func(*client.Client, context.Context) ([]T, error), none string, head []string, row func(T) []string) error {
	api, err := a.Client()
	if err != nil {
		return err
	}
	things, err := all(api, ctx)
	if err != nil {
		return err
	}
	return PrintList(a, things, none, head, row)
}

// Show prints the object of that name.
func Show[T any](ctx context.Context, a *App, one func(*client.Client, context.Context, string) (T, error), name string, pairs func(T) [][2]string) error {
	api, err := a.Client()
	if err != nil {
		return err
	}
	thing, err := one(api, ctx, name)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(thing)
	}
	a.PrintPairs(pairs(thing))
	return nil
}

// Size returns a size as text, or an empty string for an unknown size, which is 0.
func Size(b seedbed.Bytes) string {
	if b == 0 {
		return ""
	}
	return b.String()
}

// YesNo returns yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// YesOnly returns yes, or an empty string, which PrintPairs leaves out.
func YesOnly(b bool) string {
	if !b {
		return ""
	}
	return YesNo(true)
}

// OrDash returns the value as text, or a dash for nil.
func OrDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

// TellMessage prints the server's message about a change.
func (a *App) TellMessage(msg string) error {
	if a.JSON() {
		return a.PrintJSON(map[string]string{"message": msg})
	}
	a.Say("%s", OneLine(msg))
	return nil
}

// asking is a call of the API that makes a change. It returns the server's message.
type asking func(ctx context.Context, api *client.Client, args []string) (string, error)

// Told returns the function of a command that makes one change and prints the server's message.
func (a *App) Told(ask asking) func(*cobra.Command, []string) error {
	return a.Do(func(ctx context.Context, args []string) error {
		api, err := a.Client()
		if err != nil {
			return err
		}
		msg, err := ask(ctx, api, args)
		if err != nil {
			return err
		}
		return a.TellMessage(msg)
	})
}

// ShowPairs prints v as JSON, or as pairs.
func (a *App) ShowPairs(v any, pairs [][2]string) error {
	if a.JSON() {
		return a.PrintJSON(v)
	}
	a.PrintPairs(pairs)
	return nil
}

// Confirmed makes a command ask for confirmation before it does anything, unless -y is given.
// question has a %s for each argument, in their order.
func (a *App) Confirmed(question string, c *cobra.Command) *cobra.Command {
	var yes bool
	run := c.RunE
	c.RunE = a.Do(func(_ context.Context, args []string) error {
		if err := a.agree(yes, question, args); err != nil {
			return err
		}
		return run(c, args)
	})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return c
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
	what := fmt.Sprintf(question, quoted...)
	if !a.Terminal {
		return Usagef("%s: add -y (--yes) to confirm", strings.ToLower(what[:1])+what[1:])
	}
	fmt.Fprintf(a.Err, "%s? [y/N] ", what)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return fmt.Errorf("nothing was removed")
	}
	return nil
}

// Sure asks whether an action may be done, unless yes is set.
func (a *App) Sure(yes bool, what, consequence string) error {
	if yes {
		return nil
	}
	if !a.Terminal {
		return Usagef("%s: %s Add -y (--yes) to confirm", what, consequence)
	}
	fmt.Fprintf(a.Err, "%s? %s [y/N] ", strings.ToUpper(what[:1])+what[1:], consequence)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return fmt.Errorf("nothing was done")
	}
	return nil
}

// MatchingCommand returns a command that lists the objects of one kind.
func MatchingCommand[T any](a *App, kind, none string, all func(*client.Client, context.Context, string) ([]T, error), head []string, row func(T) []string) *cobra.Command {
	return &cobra.Command{
		Use: "list [LIMIT]", Aliases: []string{"ls"}, Short: "List " + kind, Args: cobra.MaximumNArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			limit := ""
			if len(args) > 0 {
				limit = args[0]
				none = "no " + kind + " with that name"
			}
			matching := func(api *client.Client, ctx context.Context) ([]T, error) { return all(api, ctx, limit) }
			return List(ctx, a, matching, none, head, row)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// JobAction returns a command that starts a job and follows it.
func (a *App) JobAction(use, short string, args int, begin func(*client.Client, context.Context, []string) (seedbed.Receipt, error)) *cobra.Command {
	var w WaitFlags
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(args),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			receipt, err := begin(api, ctx, args)
			if err != nil {
				return err
			}
			return a.Finish(ctx, api, receipt, &w)
		}),
	}
	w.AddJob(a, c)
	return c
}

// RemoveCommand returns a command that removes the object that its argument names. question and
// done have a %s for the name.
func (a *App) RemoveCommand(short, question, done string, remove func(*client.Client, context.Context, string) error) *cobra.Command {
	return a.Confirmed(question, &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: short, Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			if err := remove(api, ctx, args[0]); err != nil {
				return err
			}
			a.Say(done, args[0])
			return nil
		}),
	})
}

// Removal returns a command that removes, after confirmation, the objects that its arguments name.
// question has a %s for each argument, in their order.
func (a *App) Removal(use, short, question string, ask asking, names ...NameLister) *cobra.Command {
	return a.Confirmed(question, &cobra.Command{
		Use: use, Aliases: []string{"rm"}, Short: short, Args: cobra.ExactArgs(len(names)),
		RunE:              a.Told(ask),
		ValidArgsFunction: a.Completion(names...),
	})
}
