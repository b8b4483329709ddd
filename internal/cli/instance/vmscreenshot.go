package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmScreenshot(a *cli.App) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "screenshot NAME", Short: "Take a picture of an instance's screen",
		Long: `Take a picture of what an instance's screen shows now, as a PNG. Without -o it is written to
the standard output, unless that is a terminal.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if file == "" && a.Terminal {
				return cli.Usagef("a picture is not for a terminal: name a file (-o FILE), or redirect the output")
			}
			picture, err := api.Screenshot(ctx, args[0])
			if err != nil {
				return err
			}
			if file == "" || file == "-" {
				_, err := a.Out.Write(picture)
				return err
			}
			if err := cli.ReplaceFile(file, picture); err != nil {
				return err
			}
			a.Say("the screen of %s is in %s", args[0], file)
			return nil
		}),
	}
	c.Flags().StringVarP(&file, "output", "o", "", "write it to this `FILE`; - is the standard output")
	a.OwnOutput(c)
	return c
}
