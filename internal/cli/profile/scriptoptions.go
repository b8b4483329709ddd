package profile

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// scriptOptions returns the command that shows and changes a script's privilege and limits.
func scriptOptions(a *cli.App) *cobra.Command {
	var change wire.ScriptOptionsChange
	c := &cobra.Command{
		Use: "options NAME", Short: "Show or change the sandbox options of a script",
		Long: `Show or change the sandbox options and limits of a provisioning script. Running jobs
keep the options that they started with.

A profile's script always runs, with two exceptions, in which the disks are made
directly, as clones or blank. A script with --if-needed is skipped if no disk of the
profile has a mountpoint or a filesystem. A profile of an OVA image that has the default
script, ova or default_ova, clones the disks; with --always the script runs there too.
The job and its result say that a script was skipped.

With --privileged a script runs as root of the worker's host, with the host's /dev, /sys
and /run, as PVC's scripts do: it can do anything to the host. Only an admin can grant
that, and only for the text whose digest --sha256 gives, as "sha256sum FILE" prints it: a
changed text needs a new grant.
It runs on hosts that allow it only (scripts.privileged in their seedbed.yaml).`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if change != (wire.ScriptOptionsChange{}) {
				_, err := api.ChangeScriptOptions(ctx, args[0], change)
				return a.TellMessage(cli.Done(err, "Changed the options of provisioning script %q.", args[0]))
			}
			s, err := api.Script(ctx, args[0])
			o := s.Options
			return a.ShowPairs(err, o, [][2]string{
				{"privileged", strconv.FormatBool(o.Privileged)}, {"network", strconv.FormatBool(o.Network)},
				{"always", strconv.FormatBool(o.Always)}, {"if needed", strconv.FormatBool(o.IfNeeded)},
				{"time", orWorkers(o.Time)}, {"memory", orWorkers(cli.Size(o.Memory))},
			})
		}),
		ValidArgsFunction: a.Completion(cli.ScriptNames),
	}
	a.Fill(c, &change,
		cli.Flag{Field: "privileged", Usage: "root of the host, with its /dev, /sys and /run"},
		cli.Flag{Field: "sha256", Usage: "`DIGEST` of the script's text, which --privileged needs"},
		cli.Flag{Field: "network", Usage: "the host's network"},
		cli.Flag{Field: "always", Usage: "also run it as the default script of OVA images, whose disks are clones otherwise"},
		cli.Flag{Field: "if_needed", Usage: "skip it if no disk has a mountpoint or a filesystem"},
		cli.Flag{
			Field: "time", Usage: "time limit of all its steps together, as `DURATION`; 0s: the worker's limit",
			Parse: func(text string) (any, error) {
				limit, err := seedbed.ParseDuration(text)
				if err != nil {
					return nil, cli.Usagef("--time: %s", err)
				}
				return limit.String(), nil
			},
		},
		cli.Flag{
			Field: "memory", Usage: "memory limit, as `SIZE` such as " + seedbed.GiB.String() + "; 0: the worker's limit",
			Parse: func(text string) (any, error) { return seedbed.ParseBytes(cmp.Or(text, "0")) },
		},
	)
	return c
}

func orWorkers(s string) string { return cmp.Or(s, "the worker's limit") }
