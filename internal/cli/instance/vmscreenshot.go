package instance

import (
	"context"
	"io"

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
			if (file == "" || file == "-") && a.Terminal {
				return cli.Usagef("a picture is not for a terminal: name a file (-o FILE), or redirect the output")
			}
			var to cli.Target
			if file != "" && file != "-" {
				var err error
				if to, err = cli.NewTarget(file, args[0]+".png"); err != nil {
					return err
				}
			}
			picture, err := api.Screenshot(ctx, args[0])
			if err != nil {
				return err
			}
			if to == (cli.Target{}) {
				_, err := a.Out.Write(picture)
				return err
			}
			err = to.Write(func(w io.Writer) error {
				_, err := w.Write(picture)
				return err
			})
			if err != nil {
				return err
			}
			a.Say("the screen of %s is in %s", args[0], to.Path())
			return nil
		}),
	}
	c.Flags().StringVarP(&file, "output", "o", "", "write it to this `FILE`, or to NAME.png in that directory; - is the standard output")
	a.OwnOutput(c)
	return c
}
