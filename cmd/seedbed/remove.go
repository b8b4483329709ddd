package main

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
)

// removeCmd is a command that removes what it is given the name of, unasked, and
// says so; done has a %s for the name.
func (a *app) removeCmd(short, done string, remove func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
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
	}
}
