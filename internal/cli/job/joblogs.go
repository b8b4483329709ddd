package job

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// logsWait is how long the API may wait for new lines before it answers.
const logsWait = 20 * time.Second

func jobLogs(a *cli.App) *cobra.Command {
	var (
		stage  string
		follow bool
	)
	c := &cobra.Command{
		Use: "logs ID", Aliases: []string{"log"}, Short: "Print the output of a job's scripts and commands",
		Long: `Print the output of a job's scripts and commands, each line with its stage. At most
1 MiB of each stage is kept, its beginning and its end; a line in brackets says what is
missing. As JSON, each line of output is an object on a line.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			for after, printed := int64(0), false; ; {
				wait := time.Duration(0)
				if follow {
					wait = logsWait
				}
				page, err := api.JobOutput(ctx, args[0], stage, after, wait)
				if err != nil {
					return err
				}
				for _, l := range page.Lines {
					after, printed = max(after, l.N), true
					if err := printOutput(a, l); err != nil {
						return err
					}
				}
				if len(page.Lines) == 0 && (!follow || page.Job.State.Terminal()) {
					if !printed {
						a.Say("no output%s", cli.When(!page.Job.State.Terminal(), " yet"))
					}
					return nil
				}
			}
		}),
	}
	c.Flags().StringVar(&stage, "stage", "", "only the output of this `STAGE`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "follow the output until the job ends")
	// Its -f means follow, as in tail.
	c.Flags().StringVar(&a.Flags.Format, "format", "", "output `FORMAT`: pretty or json")
	return c
}

// printOutput prints one line of a job's output. The command may have written control characters,
// which must not reach a terminal.
func printOutput(a *cli.App, l seedbed.JobOutput) error {
	if a.JSON() {
		return a.PrintJSONLine(l)
	}
	text := cli.Printable(l.Text)
	switch l.Stream {
	case seedbed.OutputNote:
		text = "[" + text + "]"
	case "stderr":
		text = "! " + text
	}
	_, err := fmt.Fprintf(a.Out, "%-8s %s\n", l.Stage, text)
	return err
}
