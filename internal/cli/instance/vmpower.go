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
	f.Var(cli.NewDuration(&p.grace), "grace",
		"time for the guest to shut down, as `DURATION` from 1s to 1h (default: jobs.stage_timeout.shutdown)")
	c.MarkFlagsMutuallyExclusive("force", "soft")
	c.MarkFlagsMutuallyExclusive("force", "grace")
}

func (p *powerFlags) power() client.Power {
	return client.Power{Force: p.force, Soft: p.soft, Grace: p.grace}
}

func vmStart(a *cli.App) *cobra.Command {
	s := selection{in: []seedbed.InstanceState{seedbed.InstanceStopped}}
	return s.jobs(a, "start NAME...", "Start instances", (*client.Client).StartInstance)
}

func vmStop(a *cli.App) *cobra.Command {
	c := vmPower(a, risk{"stop", "stopping", interrupts}, "Shut down instances; they keep their disks and addresses",
		(*client.Client).StopInstance)
	c.Long = `Shut down instances, through their guest agent or their power button. A guest that does
not shut down in time is powered off. An instance keeps its disks and addresses. With
--all or --tag it asks for confirmation.`
	return c
}

func vmReboot(a *cli.App) *cobra.Command {
	c := vmPower(a, risk{"reboot", "rebooting", interrupts}, "Shut down instances, as stop does, and start them again",
		(*client.Client).RebootInstance)
	c.Long = "Shut down instances, as stop does, and start them again. With --all or --tag it asks for\nconfirmation."
	return c
}

// interrupts is the effect of a stop or reboot.
const interrupts = "interrupts running guests"

// vmPower returns a command that switches instances off, as its flags say.
func vmPower(
	a *cli.App, r risk, short string, ask func(*client.Client, context.Context, string, client.Power) (seedbed.Receipt, error),
) *cobra.Command {
	var p powerFlags
	s := selection{in: []seedbed.InstanceState{seedbed.InstanceRunning}, risk: r}
	c := s.jobs(a, r.verb+" NAME...", short, func(api *client.Client, ctx context.Context, name string) (seedbed.Receipt, error) {
		return ask(api, ctx, name, p.power())
	})
	p.add(c)
	return c
}
