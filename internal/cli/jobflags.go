package cli

import (
	"github.com/spf13/cobra"
)

// addJobFlags adds the flags for the options of a job that c starts. a's clients then start jobs with
// these options.
func (a *App) addJobFlags(c *cobra.Command) {
	f := Bind(a, c, &a.job,
		Flag{
			Field: "on_failure",
			Usage: "what to do if a stage fails, as `POLICY`: rollback, keep, or retry:ATTEMPTS:FIRST-WAIT such as retry:5:30s",
		},
		Flag{Field: "priority", Usage: "`PRIORITY` among queued jobs: low, normal, high or a number; the highest runs first"},
		Flag{Field: "after", Usage: "start only after that `JOB` succeeds"},
	)
	c.PreRunE = func(*cobra.Command, []string) error { return f.Read() }
}
