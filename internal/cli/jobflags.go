package cli

import (
	"github.com/spf13/cobra"

	"seedbed"
)

// jobFlags are the flags for the options of a job that a command starts.
type jobFlags struct {
	onFailure, priority, after string
}

// add adds the flags to c. a's clients then start jobs with these options.
func (f *jobFlags) add(a *App, c *cobra.Command) {
	c.Flags().StringVar(&f.onFailure, "on-failure", "", "what to do if a stage fails, as `POLICY`: rollback, keep, or retry:ATTEMPTS:FIRST-WAIT such as retry:5:30s")
	c.Flags().StringVar(&f.priority, "priority", "", "`PRIORITY` among queued jobs: low, normal, high or a number; the highest runs first")
	c.Flags().StringVar(&f.after, "after", "", "start only after that `JOB` succeeds")
	c.PreRunE = func(*cobra.Command, []string) error {
		o := seedbed.JobOptions{After: seedbed.JobID(f.after)}
		var err error
		if o.OnFailure, err = seedbed.ParseOnFailure(f.onFailure); err != nil {
			return Usagef("--on-failure: %s", err)
		}
		if o.Priority, err = seedbed.ParsePriority(f.priority); err != nil {
			return Usagef("--priority: %s", err)
		}
		a.job = o
		return nil
	}
}
