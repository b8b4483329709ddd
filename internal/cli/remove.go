package cli

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
)

// removeCmd is a command that removes what it is given the name of, and says so;
// question and done have a %s for the name.
func (a *App) removeCmd(short, question, done string, remove func(*client.Client, context.Context, string) error) *cobra.Command {
	return a.asked(question, &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: short, Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			if err := remove(api, ctx, args[0]); err != nil {
				return err
			}
			a.say(done, args[0])
			return nil
		}),
	})
}

// asked has a command confirmed before it does anything, unless -y is given;
// question has a %s for each argument, in their order.
func (a *App) asked(question string, c *cobra.Command) *cobra.Command {
	var yes bool
	run := c.RunE
	c.RunE = a.do(func(_ context.Context, args []string) error {
		if err := a.agree(yes, question, args); err != nil {
			return err
		}
		return run(c, args)
	})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}
