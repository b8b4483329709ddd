package instance

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// powerFlags are the flags that say how an instance is switched off.
type powerFlags struct {
	force, soft bool
	grace       time.Duration
}

func (p *powerFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&p.force, "force", false, "power off immediately, without asking the guest")
	f.BoolVar(&p.soft, "soft", false, "if the guest does not shut down, fail and leave it running")
	f.DurationVar(&p.grace, "grace", 0, "time for the guest to shut down, as `DURATION` from 1s to 1h (default: jobs.stage_timeout.shutdown)")
	c.MarkFlagsMutuallyExclusive("force", "soft")
	c.MarkFlagsMutuallyExclusive("force", "grace")
}

func (p *powerFlags) power() client.Power {
	return client.Power{Force: p.force, Soft: p.soft, Grace: p.grace}
}

func vmStart(a *cli.App) *cobra.Command {
	return a.JobAction("start NAME", "Start an instance", cli.Named((*client.Client).StartInstance))
}

func vmStop(a *cli.App) *cobra.Command {
	return vmPower(a, &cobra.Command{
		Use: "stop NAME", Short: "Shut down an instance; it keeps its disks and addresses",
		Long: `Shut down an instance, through its guest agent or its power button. If the guest does
not shut down in time, it is powered off. It keeps its disks and addresses.`,
	}, (*client.Client).StopInstance)
}

func vmReboot(a *cli.App) *cobra.Command {
	return vmPower(a, &cobra.Command{
		Use: "reboot NAME", Short: "Shut down an instance, as stop does, and start it again",
	}, (*client.Client).RebootInstance)
}

// vmPower makes c a command that switches an instance off, as its flags say.
func vmPower(
	a *cli.App, c *cobra.Command, ask func(*client.Client, context.Context, string, client.Power) (seedbed.Receipt, error),
) *cobra.Command {
	var (
		p powerFlags
		w cli.WaitFlags
	)
	p.add(c)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		receipt, err := ask(api, ctx, args[0], p.power())
		return a.Finish(ctx, api, &w, receipt, err)
	})
	w.AddJob(a, c)
	return c
}
