package profile

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// scriptOptions returns the command that shows and changes a script's privilege and limits.
func scriptOptions(a *cli.App) *cobra.Command {
	var (
		privileged, network, always bool
		limit                       time.Duration
		memory                      string
		c                           *cobra.Command
	)
	c = &cobra.Command{
		Use: "options NAME", Short: "Show or change the sandbox options of a script", Args: cobra.ExactArgs(1),
		Long: `Show or change the sandbox options and limits of a provisioning script. Running jobs
keep the options that they started with.

A script is skipped if no disk of the profile has a mountpoint or a filesystem: the
disks are then made directly, as clones or blank. With --always the script also runs
then, for example to change clones or the disks of an OVA image.

With --privileged a script runs as root of the worker's host, with the host's /dev, /sys
and /run, as PVC's scripts do: it can do anything to the host. Only an admin can grant
that, and only for the present text of the script: a changed text needs a new grant.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			change := wire.ScriptOptionsChange{
				Privileged: cli.Given(c, "privileged", privileged), Network: cli.Given(c, "network", network), Always: cli.Given(c, "always", always),
				Time: cli.Given(c, "time", limit.String()),
			}
			if c.Flags().Changed("memory") {
				size, err := seedbed.ParseBytes(cmp.Or(memory, "0"))
				if err != nil {
					return err
				}
				change.Memory = &size
			}
			if change != (wire.ScriptOptionsChange{}) {
				if _, err := api.ChangeScriptOptions(ctx, args[0], change); err != nil {
					return err
				}
				return a.TellMessage(fmt.Sprintf("Changed the options of provisioning script %q.", args[0]))
			}
			s, err := api.Script(ctx, args[0])
			if err != nil {
				return err
			}
			o := s.Options
			return a.ShowPairs(o, [][2]string{
				{"privileged", strconv.FormatBool(o.Privileged)}, {"network", strconv.FormatBool(o.Network)}, {"always", strconv.FormatBool(o.Always)},
				{"time", orWorkers(o.Time)}, {"memory", orWorkers(cli.Size(o.Memory))},
			})
		}),
		ValidArgsFunction: a.Completion(cli.ScriptNames),
	}
	c.Flags().BoolVar(&privileged, "privileged", false, "root of the host, with its /dev, /sys and /run")
	c.Flags().BoolVar(&network, "network", false, "the host's network")
	c.Flags().BoolVar(&always, "always", false, "also run it if no disk has a mountpoint or a filesystem")
	c.Flags().DurationVar(&limit, "time", 0, "time limit of all its steps together; 0s: the worker's limit")
	c.Flags().StringVar(&memory, "memory", "", "memory limit, such as "+seedbed.GiB.String()+"; 0: the worker's limit")
	return c
}

func orWorkers(s string) string {
	if s == "" {
		return "the worker's limit"
	}
	return s
}
